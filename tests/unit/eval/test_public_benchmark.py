"""Benchmarks in BEIR layout."""

from __future__ import annotations

import asyncio
import json
from math import log2
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eval.errors import CannotRun
from eval.public import load_benchmark, measure, score
from eval.service import Asker, Service
from eval.suite import spread


def _write(folder: Path, *, qrels: str, split: str = "") -> Path:
    docs = [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in (1, 2, 3)]
    queries = [{"_id": f"q{n}", "text": f"query {n}", "metadata": {}} for n in (1, 2, 3)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (folder / f"queries{split}.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / f"qrels{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return folder


def test_queries_without_a_relevant_document_are_left_out_and_counted(tmp_path: Path) -> None:
    benchmark = load_benchmark(_write(tmp_path, qrels="q2\td1\t1\nq1\td1\t0\n"), None)

    assert benchmark.queries == {"q2": "query 2"}
    assert (benchmark.docs, benchmark.queries_without_qrels) == (3, 2)
    assert benchmark.tenant == f"beir-{tmp_path.name}"


def test_what_is_judged_below_zero_is_as_irrelevant_as_what_is_judged_zero(tmp_path: Path) -> None:
    benchmark = load_benchmark(_write(tmp_path, qrels="q1\td1\t-1\nq1\td2\t2\nq1\td3\t1\nq2\td1\t-2\n"), None)

    assert benchmark.queries == {"q1": "query 1"}
    assert score(["d2", "d3", "d1"], benchmark.qrels["q1"]) == score(["d2", "d3"], {"d2": 2, "d3": 1})


def test_a_split_has_files_of_its_own(tmp_path: Path) -> None:
    folder = _write(tmp_path, qrels="q1\td1\t1\n", split="_dev")

    assert load_benchmark(folder, "dev").queries == {"q1": "query 1"}
    with pytest.raises(CannotRun, match=r"^there is no .*queries\.jsonl$"):
        load_benchmark(folder, None)


def test_the_judgements_of_splits_may_be_in_a_folder_beside_the_queries_of_all(tmp_path: Path) -> None:
    folder = _write(tmp_path, qrels="q1\td1\t1\n")
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").rename(folder / "qrels" / "test.tsv")
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td2\t1\n")

    assert load_benchmark(folder, None).queries == {"q1": "query 1"}
    assert load_benchmark(folder, "dev").queries == {"q2": "query 2"}
    with pytest.raises(CannotRun, match=r"there is neither .*qrels_train\.tsv nor .*qrels.train\.tsv"):
        load_benchmark(folder, "train")


@pytest.mark.parametrize(
    ("qrels", "fault"),
    [
        ("q9\td1\t1\n", "line 2: there is no query q9"),
        ("q1\td9\t1\n", "line 2: there is no document d9"),
        ("q1\td1\t1\nq1\td1\t2\n", "line 3: q1 and d1 are judged twice"),
        ("q1\td1\t-1\n", "no query with a relevant document"),
        ("q1\td1\tgood\n", "line 2: not a query id"),
        ("q1\td1\n", "line 2: not a query id"),
        ("q1\td1\t0\n", "no query with a relevant document"),
    ],
)
def test_odd_judgements_are_refused(tmp_path: Path, qrels: str, fault: str) -> None:
    folder = _write(tmp_path, qrels=qrels)

    with pytest.raises(CannotRun, match=fault):
        load_benchmark(folder, None)


def test_odd_records_are_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path, qrels="q1\td1\t1\n")
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "x"}\n{"_id": "d1", "text": " "}\n{"_id": 2}\n')

    with pytest.raises(CannotRun) as raised:
        load_benchmark(folder, None)

    assert [line.split(": ")[0].strip() for line in str(raised.value).splitlines()[1:]] == [
        "line 2",
        "line 2",
        "line 3",
        "line 3",
    ]


def test_a_document_ranks_where_its_best_chunk_does() -> None:
    scores = score(["d3", "d3", "d1", "d3", "d2"], {"d1": 1, "d2": 2, "d4": 0})

    ideal = 2 + 1 / log2(3)
    assert scores["ndcg@10"] == pytest.approx((1 / log2(3) + 2 / 2) / ideal)
    assert scores["mrr@10"] == 1 / 2
    assert (scores["recall@1"], scores["recall@5"]) == (0.0, 1.0)


def test_a_limit_takes_queries_from_the_whole_file() -> None:
    queries = [(f"q{n}", "text") for n in range(10)]

    assert [id_ for id_, _ in spread(queries, 4)] == ["q0", "q2", "q5", "q7"]
    assert spread(queries, None) == spread(queries, 99) == tuple(queries)


def test_queries_with_judgements_are_measured(tmp_path: Path) -> None:
    benchmark = load_benchmark(_write(tmp_path, qrels="q2\td1\t1\nq3\td3\t1\n"), None)
    bodies: list[dict[str, Any]] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        hits = [{"chunk_id": f"c{n}", "external_id": f"d{n}", "text": ""} for n in (3, 1)]
        return httpx2.Response(
            200, json={"hits": hits, "complete": True, "rerank": "skipped", "rerank_reason": "not_asked"}
        )

    http = httpx2.AsyncClient(base_url="http://service", transport=httpx2.MockTransport(handler))
    service = Service(http, {Asker(benchmark.tenant): "k"})
    noted: list[Any] = []
    result = asyncio.run(measure(service, benchmark, rerank=False, limit=1, note=noted.append))

    assert bodies == [{"query": "query 2", "top_k": 100, "rerank": False}]
    [query] = noted
    assert (query["_id"], query["found"], query["relevant"]) == ("q2", ["d3", "d1"], {"d1": 1})
    assert (query["mrr@10"], query["recall@50"]) == (0.5, 1.0)
    assert (result["mrr@10"], result["recall@1"], result["recall@50"]) == (0.5, 0.0, 1.0)
    assert (result["queries"], result["queries_without_qrels"], result["docs"]) == (1, 1, 3)
    assert json.loads(json.dumps(result))["reranks"] == {"skipped: not_asked": 1}
