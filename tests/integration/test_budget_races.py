"""Budgets under concurrency and crashes: real PostgreSQL, real processes."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import psycopg
import pytest

from rag.answering.metering import MeteredChat
from rag.calls import Period
from rag.errors import BalanceEmpty, BudgetExceeded
from rag.store.budgets import reap
from rag.store.engine import Database, open_database
from rag.values import TenantId
from tests.conftest import REPOSITORY
from tests.integration.spending import (
    SpendingChat,
    budget,
    call,
    give,
    ledger,
    metered,
    request,
    reservations,
    reserved_by,
)
from tests.integration.spending_process import ASKED


@contextmanager
def process(url: str, tenant: TenantId, what: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.spending_process", url, str(tenant), what],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.parametrize("period", ["month", "prepaid"])
async def test_bug_22_fifty_calls_at_once_from_two_processes_on_a_budget_for_five_let_exactly_five_through(
    database: Database,
    database_url: str,
    tenant: TenantId,
    owner: psycopg.Connection,
    process_environment: dict[str, str],
    period: Period,
) -> None:
    amount = 5 * reserved_by(request()) + 100
    await give(database, tenant, amount, period=period)

    with (
        process(database_url, tenant, "25", process_environment) as one,
        process(database_url, tenant, "25", process_environment) as two,
    ):
        for each in (one, two):
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in (one, two):
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        through = [int(each.communicate(timeout=60)[0]) for each in (one, two)]

    spent = await budget(database, tenant, period)
    assert sum(through) == 5
    assert (spent.spent, spent.reserved) == (5 * reserved_by(request()), 0)
    assert spent.spent <= amount
    assert len(ledger(owner, tenant)) == 5


async def test_bug_23_what_a_killed_process_had_reserved_is_free_again_once_its_call_is_over(
    database: Database,
    database_url: str,
    tenant: TenantId,
    owner: psycopg.Connection,
    process_environment: dict[str, str],
) -> None:
    await give(database, tenant, reserved_by(request()) + 100)
    with process(database_url, tenant, "hang", process_environment) as hanging:
        assert hanging.stdout is not None
        assert hanging.stdout.readline() == ASKED
        hanging.kill()  # SIGKILL between reserve and settle
    chat = metered(database, SpendingChat())

    with pytest.raises(BudgetExceeded):
        await chat.complete(request(), call(tenant))
    held = (await budget(database, tenant)).reserved
    while owner.execute("SELECT FROM reservations WHERE tenant_id = %s AND expires_at > now()", (tenant,)).fetchall():
        await asyncio.sleep(0.05)
    await chat.complete(request(), call(tenant))

    assert held == reserved_by(request())
    assert reservations(owner, tenant) == 0
    assert (await budget(database, tenant)).reserved == 0
    assert (await budget(database, tenant)).spent == 50


async def test_reaping_leaves_the_reservations_of_calls_at_work(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 100_000)
    stream = metered(database, SpendingChat()).stream(request(), call(tenant))
    await anext(stream)

    reaped = await reap(database, tenant)

    assert reaped == 0
    assert (await budget(database, tenant)).reserved == Decimal(4000)
    await stream.aclose()
    assert reservations(owner, tenant) == 0


async def storm(database: Database, models: list[MeteredChat], tenant: TenantId, rng: random.Random) -> None:
    """Thirty calls one after the other, half of them cancelled somewhere."""
    for _ in range(30):
        task = asyncio.create_task(rng.choice(models).complete(request(), call(tenant)))
        if rng.random() < 0.5:
            for _ in range(rng.randrange(60)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        assert isinstance(error, BudgetExceeded | BalanceEmpty | None), error
        if rng.random() < 0.1:
            await reap(database, tenant)


@pytest.mark.parametrize("seed", range(3))
async def test_calls_cancelled_at_any_moment_leave_the_budgets_equal_to_the_ledger(
    database: Database, database_url: str, tenant: TenantId, owner: psycopg.Connection, seed: int
) -> None:
    rng = random.Random(seed)
    await give(database, tenant, 60_000)
    await give(database, tenant, 40_000, period="prepaid")
    await give(database, tenant, 1, "money", "month")

    async with open_database(database_url, size=3, timeout_s=30.0) as other:
        models = [metered(each, SpendingChat()) for each in (database, other)]
        await asyncio.gather(*(storm(database, models, tenant, rng) for _ in range(20)))
        for model in models:
            await model.drain()

    used = sum(row[0] + row[1] for row in ledger(owner, tenant, "input_uncached, output"))
    day, prepaid = await budget(database, tenant), await budget(database, tenant, "prepaid")
    assert 0 < used <= 40_000
    assert (day.spent, day.reserved, prepaid.spent, prepaid.reserved) == (used, 0, used, 0)
    assert (await budget(database, tenant, "month", "money")).reserved == 0
