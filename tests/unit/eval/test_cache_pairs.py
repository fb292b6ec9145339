from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.cache import Compared, Pair, calibration, rates, read_pairs
from eval.errors import CannotRun
from tests.conftest import REPOSITORY

COMPARED = [
    Compared(Pair("What is a?", "What's a?", same=True), 0.015, passes=True),
    Compared(Pair("What is b?", "What b is?", same=True), 0.025, passes=False),
    Compared(Pair("What is c?", "What is the c?", same=True), 0.035, passes=True),
    Compared(Pair("What is d?", "Tell me what d is.", same=True), 0.5, passes=True),
    Compared(Pair("Is it on?", "Is it off?", same=False), 0.012, passes=False),
    Compared(Pair("Is it us?", "Is it US?", same=False), 0.055, passes=True),
]


def test_rates_are_shares_of_the_pairs_of_their_kind() -> None:
    found = rates(COMPARED, 0.04)

    assert (found.hits, found.false_hits) == (2 / 4, 0)
    assert (found.ungated_hits, found.ungated_false_hits) == (3 / 4, 1 / 2)


def test_the_least_distance_with_the_most_hits_and_no_false_one_is_advised() -> None:
    strict = calibration(COMPARED, most_false=0.0, embedder="e")
    lenient = calibration([*COMPARED, Compared(COMPARED[0].pair, 0.1, passes=True)], most_false=0.5, embedder="e")

    assert strict.figures["RAG_ANSWER_CACHE_DISTANCE"] == 0.04
    assert (strict.figures["hit_rate"], strict.figures["false_hit_rate"]) == (0.5, 0)
    assert lenient.figures["RAG_ANSWER_CACHE_DISTANCE"] == 0.1
    assert "false hit at 0.055: Is it us? | Is it US?" in lenient.details


def test_without_a_safe_distance_none_is_advised() -> None:
    compared = [COMPARED[0], Compared(Pair("a", "b", same=False), 0.0, passes=True)]

    result = calibration(compared, most_false=0.0, embedder="e")

    assert result.figures["RAG_ANSWER_CACHE_DISTANCE"] == "none is safe enough"


NO_PAIRS = (
    "no json",
    "[]",
    '{"a": "x", "b": "y"}',
    '{"a": "x", "b": "y", "same": 1}',
    '{"a": "", "b": "y", "same": true}',
)


@pytest.mark.parametrize("line", NO_PAIRS)
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"a": "x", "b": "y", "same": true}\n' + line + "\n", "utf-8")

    with pytest.raises(CannotRun, match=r"pairs\.jsonl:2: expected"):
        read_pairs(file)


def test_pairs_of_one_label_cannot_be_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"a": "x", "b": "y", "same": true}\n', "utf-8")

    code = main(["cache", "--pairs", str(file)])

    assert code == 2
    assert "both needed" in capsys.readouterr().err


def test_our_pairs_are_told_apart_by_the_default_distance(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_MODELS_DIR", str(models))

    code = main(["cache", "--pairs", str(REPOSITORY / "fixtures" / "cache_pairs.jsonl")])

    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0
    assert figures["pairs_same"] + figures["pairs_different"] >= 60
    assert (figures["RAG_ANSWER_CACHE_DISTANCE"], figures["false_hit_rate"]) == (0.05, 0)
    assert figures["hit_rate"] > 0.4
