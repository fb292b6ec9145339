from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from rag.answering.refusal import refusal
from rag.calls import Period, Unit
from rag.errors import BalanceEmpty, BudgetExceeded, BudgetTooSmall, RagError
from rag.store.budgets import Budget, Verdict

NOW = datetime(2026, 11, 30, 12, 30, tzinfo=UTC)
ENDS = {
    "hour": NOW + timedelta(minutes=30),
    "day": datetime(2026, 12, 1, tzinfo=UTC),
    "month": datetime(2026, 12, 1, tzinfo=UTC),
}


PROMPT: dict[Unit, Decimal | None] = {"tokens": Decimal(10), "money": None}


def unfit(period: Period, *, spent: int = 90, reserved: int = 0, wanted: int = 20) -> Verdict:
    budget = Budget("tokens", period, Decimal(100), Decimal(spent), Decimal(reserved), ENDS.get(period))
    return Verdict(budget, Decimal(wanted), fits=False)


@pytest.mark.parametrize(
    ("verdicts", "kind", "retry_after_s"),
    [
        ([unfit("hour")], BudgetExceeded, 1800),
        ([unfit("hour"), unfit("day")], BudgetExceeded, 11.5 * 3600),
        ([unfit("day"), unfit("prepaid")], BalanceEmpty, None),
        ([unfit("prepaid", spent=0, reserved=90)], BudgetExceeded, 5),
        ([unfit("hour"), unfit("month", spent=0, reserved=90)], BudgetExceeded, 1800),
        ([unfit("prepaid", spent=0, wanted=101)], BalanceEmpty, None),
        ([unfit("hour", spent=0, wanted=101)], BudgetTooSmall, None),
        ([unfit("hour", spent=0, wanted=101), unfit("month")], BudgetTooSmall, None),
        ([unfit("hour", spent=0, wanted=101), unfit("prepaid", spent=0, wanted=101)], BalanceEmpty, None),
    ],
    ids=["one window", "the later window", "paid for once", "only held", "held beside spent", "more than was paid",
         "more than a window has", "too small beside used up", "more than either has"],
)  # fmt: skip
def test_the_budget_that_is_in_the_way_longest_is_told(
    verdicts: list[Verdict], kind: type[RagError], retry_after_s: float | None
) -> None:
    error = refusal(verdicts, NOW, prompt=PROMPT)

    assert type(error) is kind
    assert error.retry_after_s == retry_after_s


def test_what_is_left_is_never_below_nothing() -> None:
    error = refusal([unfit("day", spent=150)], NOW, prompt=PROMPT)

    assert error.detail == (
        "this call may need 20 tokens, and 0 of 100 are left; the next day begins at 2026-12-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("prompt", "advice"),
    [
        (99, "lower max_tokens or raise the budget"),
        (100, "its prompt alone may need 100: raise the budget, or send less (top_k, earlier messages)"),
    ],
)
def test_less_to_write_is_advised_only_where_it_would_help(prompt: int, advice: str) -> None:
    verdict = unfit("hour", spent=0, wanted=150)

    error = refusal([verdict], NOW, prompt={"tokens": Decimal(prompt), "money": None})

    assert error.detail == f"this call may need 150 tokens, more than a whole hour has: 100; {advice}"
