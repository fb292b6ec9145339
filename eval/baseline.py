"""The difference to an earlier run, and whether it is more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from eval.errors import CannotRun
from eval.gate import Verdict
from eval.metrics import mean, recall, reciprocal_rank
from eval.outcome import MRR_DEPTH, Outcome, summary
from eval.suite import Question

SEED = 2007
DRAWS = 10_000
NOT_FOUND = 1_000_000  # behind every rank there is

Score = Callable[[Outcome], float | None]


class Baseline(BaseModel):
    """What is read of an earlier run's JSON."""

    sha256: str
    questions: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One question that went otherwise than before."""

    before: Outcome
    after: Outcome

    @property
    def gain(self) -> int:
        """Above 0 for better, below for worse: by answer first, then by rank of the first gold item."""
        answer = (self.after.verdict == "right") - (self.before.verdict == "right")
        old, new = (outcome.rank or NOT_FOUND for outcome in (self.before, self.after))
        return answer or (old > new) - (old < new)

    @property
    def usurper(self) -> str:
        """The chunk that now stands where the first gold item stood; empty where that is not known."""
        old, new = self.before.rank, self.after.rank
        fell = old is not None and (new is None or new > old)
        return self.after.first[old - 1] if old and fell and old <= len(self.after.first) else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs over the questions they share."""

    same_suite: bool
    shared: int
    new: int
    gone: int
    metrics: Mapping[str, tuple[float | None, float | None]]
    verdicts: tuple[Verdict, ...]
    worse: tuple[Change, ...]
    better: tuple[Change, ...]


def read_baseline(path: Path) -> Baseline:
    """The run written to *path* by `--json`."""
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as exc:
        raise CannotRun(f"the baseline {path} cannot be read: {exc}") from exc


def check_shared(baseline: Baseline, questions: Sequence[Question]) -> None:
    """Return only if the baseline has some of *questions*: nothing compared is no success.

    Raises CannotRun otherwise.
    """
    known = {(outcome.id, outcome.question) for outcome in baseline.questions}
    if known.isdisjoint((question.id, question.question) for question in questions):
        raise CannotRun("the baseline has none of these questions, by id and text; there is nothing to compare")


def compare(baseline: Baseline, outcomes: Sequence[Outcome], *, sha256: str, significance: float) -> Comparison:
    """How *outcomes* differ from the baseline; a question counts as the same when id and text are."""
    earlier = {(outcome.id, outcome.question): outcome for outcome in baseline.questions}
    keys = {(outcome.id, outcome.question): outcome for outcome in outcomes}
    changes = [Change(earlier[key], outcome) for key, outcome in keys.items() if key in earlier]
    before, after = summary([c.before for c in changes]), summary([c.after for c in changes])
    return Comparison(
        same_suite=baseline.sha256 == sha256,
        shared=len(changes),
        new=len(keys.keys() - earlier.keys()),
        gone=len(earlier.keys() - keys.keys()),
        metrics={metric: (before[metric], after[metric]) for metric in after},
        verdicts=tuple(_drops(changes, significance)),
        worse=tuple(change for change in changes if change.gain < 0),
        better=tuple(change for change in changes if change.gain > 0),
    )


def chance_of_drop(differences: Sequence[float]) -> float:
    """How often chance alone lowers the sum as much: a paired, one-sided randomisation test.

    Each difference gets a random sign, 10,000 times, from a fixed seed (Smucker, Allan and Carterette, CIKM 2007).
    """
    changed = np.array([difference for difference in differences if difference])
    signs = np.random.default_rng(SEED).choice((-1.0, 1.0), size=(DRAWS, len(changed)))
    as_low = np.count_nonzero(signs @ changed <= changed.sum() + 1e-9)
    return (1 + int(as_low)) / (1 + DRAWS)


TESTED: Mapping[str, Score] = {
    "mrr": lambda outcome: reciprocal_rank(outcome.ranks["reranked"], MRR_DEPTH),
    "recall@5": lambda outcome: recall(outcome.ranks["reranked"], 5),
    "right answers": lambda outcome: float(outcome.verdict == "right"),
}


def _drops(changes: Sequence[Change], significance: float) -> Iterator[Verdict]:
    level = significance / len(TESTED)  # Bonferroni: one false alarm in 1/significance comparisons, not in each test
    for name, score in TESTED.items():
        pairs = [(score(change.before), score(change.after)) for change in changes]
        differences = [new - old for old, new in pairs if old is not None and new is not None]
        chance = chance_of_drop(differences)
        bar = f"no drop beyond chance (p {chance:.4f}, fails below {level:.4f})"
        yield Verdict(f"change of {name}", mean(differences), bar, chance >= level)
