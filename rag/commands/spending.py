"""`rag budget` and `rag usage`: what a tenant may use of chat models, and what it has used."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from pydantic import ValidationError

from rag.answering.prices import Prices
from rag.answering.usage import parse_keys, parse_span, usage_report
from rag.api.admin import BudgetBody, BudgetResult, UsedResult, budget_list, usage_result
from rag.errors import InvalidInput
from rag.settings import load_settings
from rag.store.budgets import Period, Unit, delete_budget, list_budgets, put_budget
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.store.tenancy import find_tenant
from rag.telemetry import configure_logging
from rag.values import TenantId

Run = Callable[[Database, TenantId, argparse.Namespace], Coroutine[Any, Any, None]]


def main(arguments: Sequence[str]) -> int:
    """0 when it worked; 2 for a wrong command line. Raises the errors of the service."""
    parsed = _parser().parse_args(arguments)
    settings = load_settings()
    configure_logging(settings.log_level)
    parsed.prices = settings.prices

    async def opened() -> None:
        async with open_store(settings) as database:
            await parsed.run(database, await find_tenant(database, parsed.tenant), parsed)

    asyncio.run(opened())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rag")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    budget = commands.add_parser("budget", help="limit what a tenant may use").add_subparsers(required=True)
    setting = _command(budget, "set", "set a budget; what it has spent stays", _set)
    _which(setting)
    setting.add_argument("--amount", required=True, help="tokens, or US dollars")
    _which(_command(budget, "delete", "delete a budget", _delete))
    _command(budget, "show", "show the budgets and what is left of them", _show)
    usage = _command(commands, "usage", "what a tenant has used, and what that costs", _usage)
    usage.add_argument("--from", dest="since", metavar="DATE", help="by default the first of this month")
    usage.add_argument("--to", metavar="DATE", help="up to this moment; by default all of today")
    usage.add_argument("--by", default="model", help="of feature, model, day; separated by commas (default: model)")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, run: Run
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--json", action="store_true", help="print the API's body")
    parser.set_defaults(run=run)
    return parser


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unit", choices=get_args(Unit), required=True)
    parser.add_argument("--period", choices=get_args(Period), required=True, help="in UTC; prepaid is used up once")


async def _set(database: Database, tenant: TenantId, given: argparse.Namespace) -> None:
    try:
        body = BudgetBody(unit=given.unit, period=given.period, amount=given.amount)
    except ValidationError as exc:
        raise InvalidInput(f"--amount {given.amount[:40]!r}: {exc.errors()[0]['msg']}") from exc
    async with database.tenant(tenant) as tx:
        await put_budget(tx, body.unit, body.period, body.amount)
    await _show(database, tenant, given)


async def _delete(database: Database, tenant: TenantId, given: argparse.Namespace) -> None:
    async with database.tenant(tenant) as tx:
        await delete_budget(tx, given.unit, given.period)
    await _show(database, tenant, given)


async def _show(database: Database, tenant: TenantId, given: argparse.Namespace) -> None:
    found = budget_list(await list_budgets(database, tenant))
    if given.json:
        _print(found.model_dump_json())
        return
    for budget in found.budgets:
        _print(_budget(budget))
    if not found.budgets:
        _print("no budget: nothing is limited")


async def _usage(database: Database, tenant: TenantId, given: argparse.Namespace) -> None:
    span = parse_span(given.since, given.to, now=datetime.now(UTC))
    report = await usage_report(database, tenant, span, keys=parse_keys(given.by), prices=Prices(given.prices))
    found = usage_result(report)
    if given.json:
        _print(found.model_dump_json(by_alias=True))
        return
    for group in found.groups:
        _print(_used(group))
    _print("total  " + _used(found.total))


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


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
