"""Thresholds to verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.errors import CannotRun
from eval.gate import Bar, Thresholds, thresholds_beside, verdicts
from eval.outcome import Outcome

OutcomeMaker = Callable[..., Outcome]


def _checks(outcomes: list[Outcome], thresholds: dict[str, Any]) -> dict[str, bool]:
    return {v.check: v.passed for v in verdicts(outcomes, Thresholds.model_validate(thresholds))}


def test_a_value_on_the_bar_passes() -> None:
    bar = Bar(min=0.7, max=0.9)

    assert [bar.judge("x", value).passed for value in (0.69, 0.7, 0.9, 0.91)] == [False, True, True, False]


def test_what_could_not_be_measured_does_not_pass(outcome: OutcomeMaker) -> None:
    assert _checks([outcome()], {"leak_rate": {"max": 0.05}}) == {"overall: leak_rate": False}


def test_each_tenant_and_type_is_held_to_its_bar_where_the_metric_applies(outcome: OutcomeMaker) -> None:
    outcomes = [
        outcome("q1", (1,)),
        outcome("q2", (9,), tenant="beta", type="table"),
        outcome("q3", (), type="unanswerable"),
    ]

    checks = _checks(outcomes, {"each_tenant": {"recall@5": {"min": 0.5}}, "each_type": {"mrr": {"min": 0.1}}})

    assert checks == {
        "acme: recall@5": True,
        "beta: recall@5": False,
        "paraphrase: mrr": True,
        "table: mrr": True,
    }


def test_a_stage_that_ranks_worse_than_the_one_before_fails(outcome: OutcomeMaker) -> None:
    outcomes = [outcome(ranks=(2,), stages={"dense": (2,), "lexical": (None,), "fused": (1,)})]

    checks = _checks(outcomes, {"stages_mrr_not_worse": True})

    assert checks == {
        "fused: mrr not below dense": True,
        "fused: mrr not below lexical": True,
        "reranked: mrr not below fused": False,
    }


def test_without_a_file_a_suite_is_held_to_the_promise(tmp_path: Path) -> None:
    thresholds = thresholds_beside(tmp_path / "golden.json")

    assert thresholds.overall["leak_rate"] == Bar(max=0.05)
    assert thresholds.stages_mrr_not_worse


@pytest.mark.parametrize(
    "bars", [{"recal@5": {"min": 1}}, {"mrr": {}}, {"mrr": {"least": 1}}, {"each_type": {"x": {"min": 1}}}]
)
def test_a_threshold_that_would_check_nothing_is_refused(tmp_path: Path, bars: dict[str, Any]) -> None:
    (tmp_path / "golden.thresholds.json").write_text(json.dumps(bars))

    with pytest.raises(CannotRun, match=r"golden\.thresholds\.json"):
        thresholds_beside(tmp_path / "golden.json")


def test_the_thresholds_of_our_own_suite_are_sound() -> None:
    ours = thresholds_beside(Path(__file__).parents[3] / "fixtures" / "golden.json")

    assert ours.overall["recall@50"] == Bar(min=0.95)
