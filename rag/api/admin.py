"""`/v1/admin`: what a tenant may use and has used, for its own administrators."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from rag.answering.prices import Prices, plain
from rag.answering.usage import Report, Used, parse_keys, parse_span, usage_report
from rag.api.auth import Admin, ServicesDep, json_only
from rag.api.limits import InTime
from rag.api.schemas import Strict
from rag.calls import Period, Unit
from rag.store.budgets import Budget, delete_budget, list_budgets, put_budget

router = APIRouter(prefix="/v1/admin", tags=["admin"], route_class=InTime)


class BudgetBody(Strict):
    """So many tokens, or US dollars, in each period of UTC, or once if prepaid."""

    unit: Unit
    period: Period
    amount: Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6, allow_inf_nan=False)]

    @field_validator("amount")
    @classmethod
    def _whole_tokens(cls, amount: Decimal, info: ValidationInfo) -> Decimal:
        if info.data.get("unit") == "tokens" and amount % 1:
            raise ValueError("must be a whole number of tokens")
        return amount


class BudgetResult(BaseModel):
    """A budget and what is left of it; amounts are decimal digits in a string."""

    unit: Unit
    period: Period
    amount: str
    spent: str
    reserved: str
    left: str
    resets_at: datetime | None


class BudgetList(BaseModel):
    """All budgets of the tenant."""

    budgets: list[BudgetResult]


class Tokens(BaseModel):
    """Tokens by class; `output` contains `reasoning`."""

    input_uncached: int
    input_cache_read: int
    input_cache_write: int
    output: int
    reasoning: int


class UsedResult(BaseModel):
    """Usage of one group.

    `cost` is null when that of any attempt is not known: of `unknown_attempts`, of which those of the `unpriced` models
    lack a price, by these names, and the others a count of tokens. A call that asked two models is in both groups.
    """

    feature: str | None
    model: str | None
    day: str | None
    calls: int
    attempts: int
    estimated: int
    tokens: Tokens
    cost: str | None
    known_cost: str
    unknown_attempts: int
    unpriced: list[str]


class UsageResult(BaseModel):
    """What was used from a moment to another, which is excluded."""

    since: datetime = Field(serialization_alias="from")
    to: datetime
    currency: str
    groups: list[UsedResult]
    total: UsedResult


@router.get("/budgets")
async def get_budgets(who: Admin, services: ServicesDep) -> BudgetList:
    """The tenant's budgets."""
    return budget_list(await list_budgets(services.database, who.tenant_id))


@router.put("/budgets", dependencies=[Depends(json_only)])
async def put_one(body: BudgetBody, who: Admin, services: ServicesDep) -> BudgetList:
    """Set the budget of this unit and period; what it has spent stays."""
    async with services.database.tenant(who.tenant_id) as tx:
        await put_budget(tx, body.unit, body.period, body.amount)
    return budget_list(await list_budgets(services.database, who.tenant_id))


@router.delete("/budgets", status_code=204)
async def delete_one(unit: Unit, period: Period, who: Admin, services: ServicesDep) -> None:
    """Delete the budget of this unit and period: it limits nothing any more."""
    async with services.database.tenant(who.tenant_id) as tx:
        await delete_budget(tx, unit, period)


@router.get("/usage")
async def get_usage(
    who: Admin,
    services: ServicesDep,
    since: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    to: Annotated[str | None, Query(max_length=40)] = None,
    group_by: Annotated[str, Query(max_length=100)] = "",
) -> UsageResult:
    """Tokens and costs, by feature, model and day as asked; by default of this month."""
    keys, span = parse_keys(group_by), parse_span(since, to, now=datetime.now(UTC))
    prices = Prices(services.settings.prices)
    return usage_result(await usage_report(services.database, who.tenant_id, span, keys=keys, prices=prices))


def budget_list(budgets: list[Budget]) -> BudgetList:
    """The body for a tenant's budgets."""
    return BudgetList(
        budgets=[
            BudgetResult(
                unit=b.unit,
                period=b.period,
                amount=plain(b.amount),
                spent=plain(b.spent),
                reserved=plain(b.reserved),
                left=plain(b.left),
                resets_at=b.resets_at,
            )
            for b in budgets
        ]
    )


def usage_result(report: Report) -> UsageResult:
    """The body for a report."""
    return UsageResult(
        since=report.span[0],
        to=report.span[1],
        currency="USD",
        groups=[_used(line) for line in report.lines],
        total=_used(report.total),
    )


def _used(line: Used) -> UsedResult:
    return UsedResult(
        feature=line.feature or None,
        model=line.model or None,
        day=f"{line.day.astimezone(UTC):%Y-%m-%d}" if line.day else None,
        calls=line.calls,
        attempts=line.attempts,
        estimated=line.estimated,
        tokens=Tokens(**{name: getattr(line.usage, name) or 0 for name in Tokens.model_fields}),
        cost=None if line.cost is None else plain(line.cost),
        known_cost=plain(line.known_cost),
        unknown_attempts=line.unknown,
        unpriced=list(line.unpriced),
    )
