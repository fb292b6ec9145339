"""What a tenant may use: budgets, and what calls at work have reserved of them.

A budget's row carries what is spent and reserved, so one statement that locks it can judge and reserve. A window begins
with the hour, day or month of UTC; a call counts in the window in which it ends, where its ledger rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from rag.calls import Period, Unit
from rag.errors import NotFound
from rag.store.engine import Database, TenantTx
from rag.values import TenantId


@dataclass(frozen=True, slots=True)
class Budget:
    """So much in each period, or once if prepaid; money is in US dollars. `resets_at` is None for what is prepaid."""

    unit: Unit
    period: Period
    amount: Decimal
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)
    resets_at: datetime | None = None

    @property
    def left(self) -> Decimal:
        """What a new call may still reserve; below zero when a smaller amount was set than is spent."""
        return self.amount - self.spent - self.reserved


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call fits into a budget; `wanted` is None when the price of the call is not known."""

    budget: Budget
    wanted: Decimal | None
    fits: bool


async def reserve(
    database: Database, tenant_id: TenantId, operation_id: UUID, *, tokens: int, money: Decimal | None, lasts_s: float
) -> list[Verdict]:
    """A verdict for each budget: the call is reserved in all of them when it fits into all, else in none."""
    rows = await database.alone(tenant_id).fetch(
        "reserve", operation_id=operation_id, tokens=tokens, money=money, lasts_s=lasts_s
    )
    return [Verdict(Budget(*row[:6]), row[6], bool(row[7])) for row in rows]


async def reap(database: Database, tenant_id: TenantId) -> int:
    """How many reservations of calls that died without a settlement were freed."""
    return int((await database.alone(tenant_id).fetch("reap_reservations"))[0][0])


async def list_budgets(database: Database, tenant_id: TenantId) -> list[Budget]:
    """The tenant's budgets by unit and period."""
    await reap(database, tenant_id)
    return [Budget(*row) for row in await database.alone(tenant_id).fetch("list_budgets")]


async def put_budget(tx: TenantTx, unit: Unit, period: Period, amount: Decimal) -> None:
    """Set the amount of the tenant's budget of this unit and period; what it has spent stays. A new one begins at 0."""
    await tx.run("put_budget", unit=unit, period=period, amount=amount)


async def delete_budget(tx: TenantTx, unit: Unit, period: Period) -> None:
    """Delete the budget.

    Raises NotFound when the tenant has none of this unit and period.
    """
    if not await tx.run("delete_budget", unit=unit, period=period):
        raise NotFound(f"there is no budget of {unit} by {period}")
