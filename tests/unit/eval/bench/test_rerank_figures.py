"""What both scorers' turns come to, and where their texts come from."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from eval.bench.rerank import Scored, Turn, _Reference, figures
from eval.bench.rerank_tasks import Task, candidates
from eval.errors import CannotRun
from eval.public import load_benchmark

TEXTS = {"a": "one", "b": "two", "c": "three"}
GRADED = Task("which?", TEXTS, {"a": 1})


def test_the_ratio_is_of_all_seconds_and_quality_is_compared_on_each_order() -> None:
    first = Turn(GRADED, ours=Scored(1.0, 2.0, (0.1, 0.9, 0.0)), theirs=Scored(5.0, 6.0, (0.9, 0.1, 0.0)))
    second = Turn(GRADED, ours=Scored(2.0, 3.0, (3.0, 2.0, 1.0)), theirs=Scored(4.0, 4.0, (3.0, 2.0, 1.0)))

    found = figures([first, second])

    assert (found["ratio"], found["cpu_ratio"]) == (3.0, 2.0)  # 9 / 3 and 10 / 5
    assert found["ndcg"] == 0.8155  # (1 / log2(3) + 1) / 2
    assert found["reference_ndcg"] == 1.0
    assert found["ndcg_delta"] == -0.1845
    assert found["logits_apart_mean"] == 0.2667  # (0.8 + 0.8 + 0) / 3 and 0, in the mean
    assert (found["p50_ms"], found["reference_p50_ms"], found["queries"]) == (1000.0, 4000.0, 2)


def test_without_grades_there_is_a_ratio_and_no_quality() -> None:
    scored = Scored(2.0, 2.0, (1.0, 2.0, 3.0))

    found = figures([Turn(Task("which?", TEXTS, {}), scored, scored)])

    assert (found["ratio"], found["ndcg"], found["ndcg_delta"]) == (1.0, None, None)


def test_without_a_reference_ours_stands_alone() -> None:
    found = figures([Turn(GRADED, Scored(1.5, 3.0, (3.0, 2.0, 1.0)))])

    assert (found["p50_ms"], found["ndcg"]) == (1500.0, 1.0)
    assert (found["ratio"], found["ndcg_delta"], found["reference_p50_ms"]) == (None, None, None)


def test_the_reference_is_asked_by_a_line_and_answers_by_one(tmp_path: Path) -> None:
    asked, answers = io.BytesIO(), io.BytesIO(b'{"seconds": 0.5, "cpu_seconds": 0.9, "logits": [1.0, 2.0, 3.0]}\n')

    scored = _Reference(asked, answers, tmp_path / "errors").score(GRADED)

    assert scored == Scored(0.5, 0.9, (1.0, 2.0, 3.0))
    assert json.loads(asked.getvalue()) == {"query": "which?", "texts": ["one", "two", "three"]}


def test_a_reference_that_ends_ends_the_run_with_its_last_words(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    errors.write_text("Traceback\nOSError: no room\n")

    with pytest.raises(CannotRun, match="no room"):
        _Reference(io.BytesIO(), io.BytesIO(), errors).score(GRADED)


def test_candidates_are_the_best_documents_by_bm25_with_their_titles(tmp_path: Path) -> None:
    corpus = [
        {"_id": "d1", "title": "Trains", "text": "They leave at noon."},
        {"_id": "d2", "title": "", "text": "The train, the slow train."},
        {"_id": "d3", "title": "Boats", "text": "They leave at night."},
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in corpus))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "train"}\n{"_id": "q2", "text": "noon"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t2\n")

    first, second = candidates(load_benchmark(tmp_path, None), 2)

    assert list(first.texts.items()) == [("d2", "The train, the slow train."), ("d1", "Trains\nThey leave at noon.")]
    assert (first.query, first.grades) == ("train", {"d2": 1})
    assert (list(second.texts), second.grades) == (["d1"], {"d1": 2})
