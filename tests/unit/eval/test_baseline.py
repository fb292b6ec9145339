"""The difference to an earlier run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eval.baseline import Baseline, Comparison, chance_of_drop, check_shared, compare, read_baseline
from eval.errors import CannotRun
from eval.outcome import Outcome
from eval.suite import Question

OutcomeMaker = Callable[..., Outcome]


def _compare(before: Sequence[Outcome], after: Sequence[Outcome], sha256: str = "s") -> Comparison:
    return compare(Baseline(sha256="s", questions=tuple(before)), after, sha256=sha256, significance=0.05)


def test_nothing_changed_is_no_drop() -> None:
    assert chance_of_drop([0.0, 0.0]) == 1.0


def test_the_chance_of_five_equal_drops_is_one_in_thirty_two() -> None:
    assert chance_of_drop([-0.5] * 5) == pytest.approx(1 / 32, abs=0.005)


def test_the_chance_is_the_same_every_time() -> None:
    differences = [-0.5, 0.25, -0.1, 0.3, -0.9]

    assert len({chance_of_drop(differences) for _ in range(3)}) == 1


def test_a_drop_in_many_questions_fails_and_one_in_few_is_noise(outcome: OutcomeMaker) -> None:
    before = [outcome(f"q{n}", (1,)) for n in range(40)]
    many = [outcome(f"q{n}", (3 if n < 20 else 1,)) for n in range(40)]
    few = [outcome(f"q{n}", (3 if n < 3 else 1,)) for n in range(40)]

    passed = [{v.check: v.passed for v in _compare(before, after).verdicts} for after in (many, few)]

    assert passed[0] == {"change of mrr": False, "change of recall@5": True, "change of right answers": True}
    assert all(passed[1].values())


def test_new_leaks_count_as_lost_answers(outcome: OutcomeMaker) -> None:
    before = [outcome(f"q{n}", (), type="unanswerable") for n in range(12)]
    after = [outcome(f"q{n}", (), type="unanswerable", verdict="leaked") for n in range(12)]

    failed = [v.check for v in _compare(before, after).verdicts if not v.passed]

    assert failed == ["change of right answers"]


def test_a_question_that_got_worse_names_what_took_its_place(outcome: OutcomeMaker) -> None:
    before = [outcome("q1", (2,)), outcome("q2", (9,)), outcome("q3", (1,))]
    after = [outcome("q1", (None,)), outcome("q2", (4,)), outcome("q3", (1,))]

    comparison = _compare(before, after)

    assert [(c.after.id, c.usurper) for c in comparison.worse] == [("q1", "b.md > B")]
    assert [(c.after.id, c.usurper) for c in comparison.better] == [("q2", "")]
    assert comparison.metrics["recall@1"] == (1 / 3, 1 / 3)


def test_a_lost_answer_is_worse_even_at_a_better_rank(outcome: OutcomeMaker) -> None:
    comparison = _compare([outcome(ranks=(2,))], [outcome(ranks=(1,), verdict="abstained", status="no_evidence")])

    assert len(comparison.worse) == 1


def test_only_questions_in_both_runs_are_compared(outcome: OutcomeMaker) -> None:
    before = [outcome("q1"), outcome("q2"), outcome("q3", question="old words?")]
    after = [outcome("q1"), outcome("q3"), outcome("q4")]

    comparison = _compare(before, after, sha256="other")

    assert (comparison.shared, comparison.new, comparison.gone, comparison.same_suite) == (1, 2, 2, False)


def test_a_baseline_of_other_questions_is_no_comparison(outcome: OutcomeMaker) -> None:
    asked = Question(id="q1", tenant="acme", type="table", question="new words?", gold=())

    with pytest.raises(CannotRun, match="none of these questions"):
        check_shared(Baseline(sha256="s", questions=(outcome("q1", question="old words?"),)), [asked])


def test_an_unreadable_baseline_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"sha256": "s"}')

    with pytest.raises(CannotRun, match=r"old\.json"):
        read_baseline(path)
