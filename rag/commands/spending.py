"""`rag budget` and `rag usage`: what a tenant may use of chat models, and what it has used."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from pydantic import ValidationError

from rag.answering.prices import Prices
from rag.answering.usage import parse_keys, parse_span, usage_report
from rag.api.admin import BudgetBody, BudgetResult, UsedResult, budget_list, usage_result
from rag.commands.opened import show, with_store
from rag.errors import InvalidInput
from rag.settings import load_settings
from rag.store.budgets import delete_budget, list_budgets, put_budget
from rag.store.engine import Database
from rag.store.tenancy import find_tenant
from rag.values import TenantId


def put(arguments: argparse.Namespace) -> None:
    """Set a budget, and show all."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        try:
            body = BudgetBody(unit=arguments.unit, period=arguments.period, amount=arguments.amount)
        except ValidationError as exc:
            raise InvalidInput(f"--amount {arguments.amount[:40]!r}: {exc.errors()[0]['msg']}") from exc
        async with database.tenant(tenant) as tx:
            await put_budget(tx, body.unit, body.period, body.amount)
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
        for group in found.groups:
            show(_used(group))
        show("total  " + _used(found.total))

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
    unit = "US dollars" if budget.unit == "money" else "tokens"
    anew = f"; begins anew at {budget.resets_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if budget.resets_at else ""
    of = "prepaid" if budget.period == "prepaid" else f"a {budget.period}"
    return f"{budget.amount} {unit} {of}: {budget.left} left, {budget.spent} spent, {budget.reserved} reserved{anew}"


def _used(line: UsedResult) -> str:
    tokens = line.tokens
    read = tokens.input_uncached + tokens.input_cache_read + tokens.input_cache_write
    cost = f"{line.cost} US dollars" if line.cost is not None else (
        f"{line.known_cost} US dollars and what {', '.join(line.unpriced)} costs, which RAG_PRICES does not say"
    )  # fmt: skip
    keys = "  ".join(key for key in (line.day, line.feature, line.model) if key)
    return f"{keys}{'  ' if keys else ''}{line.calls} calls, {read} tokens in, {tokens.output} out: {cost}"
