"""Settlements of many calls at once, of some that cannot be written, and of a database that does not come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import rag.answering.settlement as settlement
from rag.answering.settlement import Settler
from rag.calls import Usage
from rag.store.engine import Database, open_database
from rag.store.ledger import Entry, Settlement
from rag.values import TenantId
from tests.conftest import MakeTenant
from tests.integration.spending import attempt, budget, give, ledger


def ended(output: int = 10, number: int = 1) -> Settlement:
    made = attempt(number, usage=Usage(40, 0, 0, output, 0))
    return Settlement(uuid4(), "query", "answer", (Entry(made, "openai", Decimal("0.01")),))


async def test_calls_that_end_together_share_few_transactions_and_are_charged_each(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    await give(database, tenant, 10, "money")
    settler = Settler(database, grace_s=10)

    done = [settler.begin(tenant, ended()) for _ in range(50)]
    await asyncio.gather(*(each.wait() for each in done))

    moments = {row[0] for row in ledger(owner, tenant, "settled_at")}
    assert len(ledger(owner, tenant)) == 50
    assert len(moments) <= 2
    assert (await budget(database, tenant)).spent == 50 * 50
    assert (await budget(database, tenant, unit="money")).spent == Decimal("0.50")


async def test_one_that_cannot_be_written_takes_no_other_with_it(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    settler = Settler(database, grace_s=10)

    for call in (ended(1), ended(2**63), ended(3)):  # the second is more than the column holds
        settler.begin(tenant, call)
    await settler.drain()

    assert sorted(row[2] for row in ledger(owner, tenant)) == [1, 3]


async def test_tenants_do_not_wait_for_one_another(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection, database_url: str
) -> None:
    held, free = await make_tenant(), await make_tenant()
    await give(database, held, 1000)
    settler = Settler(database, grace_s=10)

    with psycopg.connect(database_url) as locking:
        locking.execute("SELECT * FROM budgets WHERE tenant_id = %s FOR UPDATE", (held,))
        waiting = settler.begin(held, ended())
        await asyncio.wait_for(settler.begin(free, ended()).wait(), 5)
        assert not waiting.is_set()
    await asyncio.wait_for(waiting.wait(), 5)

    assert [len(ledger(owner, tenant)) for tenant in (held, free)] == [1, 1]


@pytest.mark.parametrize(("grace_s", "drain_s"), [(0.2, 5.0), (60.0, 0.2)], ids=["given up", "stopped"])
async def test_with_the_database_gone_for_good_it_ends_all_the_same(
    clone: Callable[[], str], owner: psycopg.Connection, tenant: TenantId, monkeypatch: pytest.MonkeyPatch,
    grace_s: float, drain_s: float,
) -> None:  # fmt: skip
    monkeypatch.setattr(settlement, "AGAIN_S", 0.02)
    monkeypatch.setattr(settlement, "DRAIN_S", drain_s)
    url = clone()
    async with open_database(url, size=1, timeout_s=0.1) as lost:
        owner.execute(
            sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(str(conninfo_to_dict(url)["dbname"])))
        )
        settler = Settler(lost, grace_s=grace_s)
        done = settler.begin(tenant, ended())
        started = time.monotonic()

        await settler.drain()

        assert done.is_set()
        assert time.monotonic() - started < 3
