"""`rag budget` and `rag usage`: what a tenant may use of chat models, and what it has used."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from pydantic import ValidationError

from rag.answering.cautions import unpriced
from rag.answering.prices import Prices
from rag.answering.usage import parse_keys, parse_span, usage_report
from rag.api.admin import BudgetBody, BudgetResult, UsageResult, UsedResult, budget_list, usage_result
from rag.commands.opened import show, with_store
from rag.commands.tables import table
from rag.errors import InvalidInput
from rag.settings import load_settings
from rag.store.budgets import delete_budget, list_budgets, put_budget
from rag.store.engine import Database
from rag.store.tenancy import find_tenant
from rag.telling import counted
from rag.values import TenantId

PERIODS = {"hour": "an hour", "day": "a day", "month": "a month", "prepaid": "prepaid"}
AMOUNTS = {  # as BudgetBody takes them
    "tokens": "a whole number of tokens, of 12 digits at most, such as 5000000",
    "money": "US dollars, from 0 and with six decimals at most, such as 12.50",
}


def put(arguments: argparse.Namespace) -> None:
    """Set a budget, and show all."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        try:
            body = BudgetBody(unit=arguments.unit, period=arguments.period, amount=arguments.amount)
        except ValidationError as exc:
            raise InvalidInput(f"--amount takes {AMOUNTS[arguments.unit]}, not {arguments.amount[:40]!r}") from exc
        async with database.tenant(tenant) as tx:
            await put_budget(tx, body.unit, body.period, body.amount)
        for caution in unpriced(load_settings()) if body.unit == "money" else []:
            sys.stderr.write(f"warning: {caution}\n")
        await _show(database, tenant, arguments)

    with_store(run)


def delete(arguments: argparse.Namespace) -> None:
    """Delete a budget, and show the others."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        async with database.tenant(tenant) as tx:
            await delete_budget(tx, arguments.unit, arguments.period)
        await _show(database, tenant, arguments)

    with_store(run)


def budgets(arguments: argparse.Namespace) -> None:
    """Show the budgets."""

    async def run(database: Database) -> None:
        await _show(database, await find_tenant(database, arguments.tenant), arguments)

    with_store(run)


def usage(arguments: argparse.Namespace) -> None:
    """Show what was used."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        span = parse_span(arguments.since, arguments.to, now=datetime.now(UTC))
        prices = Prices(load_settings().prices)
        found = usage_result(await usage_report(database, tenant, span, keys=parse_keys(arguments.by), prices=prices))
        if arguments.json:
            show(found.model_dump_json(by_alias=True))
            return
        show(_report(found))

    with_store(run)


async def _show(database: Database, tenant: TenantId, arguments: argparse.Namespace) -> None:
    found = budget_list(await list_budgets(database, tenant))
    if arguments.json:
        show(found.model_dump_json())
        return
    for budget in found.budgets:
        show(_budget(budget))
    if not found.budgets:
        show("no budget: nothing is limited")


def _budget(budget: BudgetResult) -> str:
    unit = ("US dollar" if budget.unit == "money" else "token") + ("" if budget.amount == "1" else "s")
    left = f"overspent by {budget.left[1:]}" if budget.left.startswith("-") else f"{budget.left} left"
    state = f"{left}, {budget.spent} spent, {budget.reserved} reserved"
    return f"{budget.amount} {unit} {PERIODS[budget.period]}: {state}{_renewal(budget)}"


def _renewal(budget: BudgetResult) -> str:
    """When a window begins in which nothing is spent: of an hour its time says it, else the day."""
    if budget.resets_at is None:
        return ""
    moment = budget.resets_at.astimezone(UTC)
    return f"; begins anew {f'at {moment:%H:%M}' if budget.period == 'hour' else f'on {moment:%Y-%m-%d}'} UTC"


def _report(found: UsageResult) -> str:
    """The report as a table, and what its costs lack."""
    span = f"{found.since.astimezone(UTC):%Y-%m-%d %H:%M} to {found.to.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if not found.total.attempts:
        return f"{span}: nothing was used"
    keys = [key for key in ("day", "feature", "model") if any(getattr(group, key) for group in found.groups)]
    rows = [[*(getattr(group, key) for key in keys), *_figures(group)] for group in found.groups] if keys else []
    rows.append(["total", *[""] * (len(keys) - 1), *_figures(found.total)] if keys else _figures(found.total))
    told = table([*keys, "calls", "attempts", "tokens in", "out", "USD"], rows)
    return "\n".join([span, told, *_unknown(found.total)])


def _figures(line: UsedResult) -> list[object]:
    tokens = line.tokens
    read = tokens.input_uncached + tokens.input_cache_read + tokens.input_cache_write
    more = f" and {counted(line.unknown_attempts, 'attempt')} unknown" if line.unknown_attempts else ""
    return [line.calls, line.attempts, read, tokens.output, f"{line.known_cost}{more}"]


def _unknown(total: UsedResult) -> list[str]:
    """Why costs are not known, and what makes them so."""
    if not total.unknown_attempts:
        return []
    if not total.unpriced:
        return ["unknown: nobody said how many tokens these attempts used"]
    return [f"unknown: RAG_PRICES has no price by the name {' or '.join(total.unpriced)}"]
