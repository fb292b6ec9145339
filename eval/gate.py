"""Thresholds to verdicts: whether a run is good enough to merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from eval.errors import CannotRun
from eval.outcome import STAGES, Outcome, Stage, grouped, retrieval, summary
from eval.suite import Strict


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check of the gate; where there was nothing to measure, `value` is None and it did not pass."""

    check: str
    value: float | None
    bar: str
    passed: bool


class Bar(Strict):
    """The values a metric may have, both ends included."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Bar:
        if self.min is None and self.max is None:
            raise ValueError("a bar has a min, a max or both")
        return self

    def judge(self, check: str, value: float | None) -> Verdict:
        """Whether *value* is within the bar."""
        low, high = self.min, self.max
        bar = " and ".join(f"{sign} {end:g}" for sign, end in ((">=", low), ("<=", high)) if end is not None)
        within = value is not None and (low is None or value >= low) and (high is None or value <= high)
        return Verdict(check, value, bar, within)


def _known(metric: str) -> str:
    if metric not in summary(()):
        raise ValueError(f"there is no metric {metric}; there are {', '.join(summary(()))}")
    return metric


Bars = Mapping[Annotated[str, AfterValidator(_known)], Bar]


class Thresholds(BaseModel):
    """What a run must reach: a bar by metric for all questions, then for each tenant and each type, then by stage.

    `significance` is the chance of a false alarm that a comparison with a baseline accepts.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Bar] = Field(init=False)

    each_tenant: Bars = Field(default_factory=dict)
    each_type: Bars = Field(default_factory=dict)
    stages_mrr_not_worse: bool = False
    significance: float = Field(default=0.05, gt=0, lt=1)

    @property
    def overall(self) -> Bars:
        """The bars for all questions together."""
        return self.__pydantic_extra__

    def of_a_part(self) -> Thresholds:
        """The bars for all questions alone: a tenant, a type or a stage has too few in a part of the suite."""
        return self.model_copy(update={"each_tenant": {}, "each_type": {}, "stages_mrr_not_worse": False})

    @model_validator(mode="after")
    def _metrics_known(self) -> Thresholds:
        for metric in self.overall:
            _known(metric)
        return self


# Each stage costs time and must be worth it.
STEPS: tuple[tuple[Stage, Stage], ...] = (("dense", "fused"), ("lexical", "fused"), ("fused", "reranked"))

# What the service promises; a suite without thresholds of its own is held to it.
PROMISE = """{
    "recall@50": {"min": 0.9}, "recall@5": {"min": 0.75}, "mrr": {"min": 0.7}, "leak_rate": {"max": 0.05},
    "stages_mrr_not_worse": true
}"""


def thresholds_beside(suite: Path) -> Thresholds:
    """The thresholds in `<suite>.thresholds.json`, or the service's promise where there is no such file."""
    path = suite.with_suffix(".thresholds.json")
    try:
        return Thresholds.model_validate_json(path.read_bytes() if path.exists() else PROMISE)
    except (OSError, ValidationError) as exc:
        raise CannotRun(f"the thresholds in {path} cannot be used: {exc}") from exc


def verdicts(outcomes: Sequence[Outcome], thresholds: Thresholds) -> list[Verdict]:
    """Every check of the gate. A tenant or type in which a metric does not apply is not checked for it."""
    return [
        *_judge(thresholds.overall, outcomes, "overall"),
        *_judge_parts(thresholds.each_tenant, grouped(outcomes, "tenant")),
        *_judge_parts(thresholds.each_type, grouped(outcomes, "type")),
        *(_judge_stages(outcomes) if thresholds.stages_mrr_not_worse else ()),
    ]


def _judge(bars: Bars, outcomes: Sequence[Outcome], name: str) -> Iterator[Verdict]:
    metrics = summary(outcomes)
    return (bar.judge(f"{name}: {metric}", metrics[metric]) for metric, bar in bars.items())


def _judge_parts(bars: Bars, groups: Mapping[str, Sequence[Outcome]]) -> Iterator[Verdict]:
    checks = (check for name, group in groups.items() for check in _judge(bars, group, name))
    return (check for check in checks if check.value is not None)


def _judge_stages(outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    mrr = {stage: retrieval(outcomes, stage)["mrr"] for stage in STAGES}
    for earlier, stage in STEPS:
        floor = mrr[earlier] or 0.0
        yield Bar(min=floor).judge(f"{stage}: mrr not below {earlier}", mrr[stage])
