"""What a caller is told whose call does not fit into a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from rag.answering.prices import plain
from rag.calls import Unit
from rag.errors import BalanceEmpty, BudgetExceeded, BudgetTooSmall
from rag.store.budgets import Budget, Verdict

HELD_S = 5.0  # calls at work end within seconds, and most have reserved far more than they use
REFUSALS = (BudgetExceeded, BalanceEmpty, BudgetTooSmall)
NAMES = {"tokens": "tokens", "money": "US dollars"}


def refusal(
    unfit: Sequence[Verdict], now: datetime, *, prompt: Mapping[Unit, Decimal | None]
) -> BudgetExceeded | BudgetTooSmall | BalanceEmpty:
    """The error for the budget that stays in the way longest: too small, else paid for once, else renewed last.

    *prompt* is what reading the prompt may need, before a word is written.
    """
    worst = max(
        unfit, key=lambda v: (_is_small(v), not _is_held(v), v.budget.resets_at is None, v.budget.resets_at or now)
    )
    budget, wanted = worst.budget, worst.wanted or Decimal(0)
    needs = f"this call may need {plain(wanted)} {NAMES[budget.unit]}"
    if _is_small(worst) and budget.resets_at is not None:
        whole = f"more than a whole {budget.period} has: {plain(budget.amount)}"
        return BudgetTooSmall(f"{needs}, {whole}; {_advice(budget, prompt[budget.unit] or Decimal(0))}")
    left = f"{needs}, and {plain(max(budget.left, Decimal(0)))} of {plain(budget.amount)} are left"
    if _is_held(worst):
        held = f"{left} while calls at work hold {plain(budget.reserved)}; {_renewal(budget)}"
        return BudgetExceeded(held, retry_after_s=HELD_S, resets_at=budget.resets_at)
    if budget.resets_at is None:
        return BalanceEmpty(f"{left}; {_renewal(budget)}")
    ahead_s = max((budget.resets_at - now).total_seconds(), 1.0)
    return BudgetExceeded(f"{left}; {_renewal(budget)}", retry_after_s=ahead_s, resets_at=budget.resets_at)


def _advice(budget: Budget, prompt: Decimal) -> str:
    if prompt >= budget.amount:  # not a word more may be written
        return f"its prompt alone may need {plain(prompt)}: raise the budget, or send less (top_k, earlier messages)"
    return "lower max_tokens or raise the budget"


def _is_small(verdict: Verdict) -> bool:
    """Whether the call would not fit though nothing were used: there is nothing to wait for."""
    return (verdict.wanted or 0) > verdict.budget.amount


def _is_held(verdict: Verdict) -> bool:
    """Whether the call would fit but for what other calls have reserved and may yet give back."""
    return verdict.budget.spent + (verdict.wanted or 0) <= verdict.budget.amount


def _renewal(budget: Budget) -> str:
    if budget.resets_at is None:
        return "it is prepaid and not renewed by itself: raise it with `rag budget set`"
    return f"the next {budget.period} begins at {budget.resets_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
