"""What was deleted leaves the postings though nobody uploads anything any more."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest

from ingest import worker
from ingest.pipeline import Pipeline
from ingest.worker import Worker
from rag.errors import StoreError
from rag.store.engine import Database, TenantTx
from rag.telemetry import Metrics
from rag.values import TenantId
from tests.conftest import MakeTenant
from tests.fakes import embedders, parse_directly
from tests.integration.corpus import prepared, store
from tests.integration.embedding import until
from tests.integration.reading import delete
from tests.integration.stored import Counters
from tests.integration.uploads import worker_of

WAITING = "SELECT count(*) FROM upkeep"


@pytest.fixture(autouse=True)
def nobody_waits(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM upkeep")


async def fill(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared(f"doc-{n}", f"A zebra of number {n}.") for n in range(10)])


def let_it_be_due(owner: psycopg.Connection) -> None:
    owner.execute("UPDATE upkeep SET due_at = now() - interval '1 second'")


async def test_a_tenant_of_deletions_alone_is_compacted_by_a_worker(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await fill(database, tenant)
    for n in range(4):
        await delete(database, tenant, f"doc-{n}")

    at_once = await worker_of(database).keep_one_up()
    before = Counters.told(owner, tenant)
    let_it_be_due(owner)
    done, again = await worker_of(database).keep_one_up(), await worker_of(database).keep_one_up()

    assert (at_once, done, again) == (False, True, False)
    assert before == Counters(10, 4)
    assert Counters.told(owner, tenant) == Counters.counted(owner, tenant) == Counters(6, 0)
    assert owner.execute(WAITING).fetchone() == (0,)


async def test_a_worker_at_rest_looks_for_them(database: Database, tenant: TenantId, owner: psycopg.Connection) -> None:
    await fill(database, tenant)
    await delete(database, tenant, "doc-1")
    await delete(database, tenant, "doc-2")
    await delete(database, tenant, "doc-3")
    let_it_be_due(owner)

    working = asyncio.create_task(worker_of(database).run())
    await until(lambda: Counters.told(owner, tenant) == Counters(7, 0))
    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working


async def test_what_cannot_be_tidied_now_waits_for_another_look(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: TenantTx) -> bool:
        raise StoreError("a block is damaged")

    await fill(database, tenant)
    await delete(database, tenant, "doc-1")
    let_it_be_due(owner)
    monkeypatch.setattr(worker, "compact_if_due", fail)

    assert await worker_of(database).keep_one_up()

    leased = "SELECT due_at > now() + interval '9 minutes' FROM upkeep"
    assert owner.execute(leased).fetchall() == [(True,)]
    assert not await worker_of(database).keep_one_up()


async def test_a_deletion_during_the_look_is_looked_after_too(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_one_more(_: TenantTx) -> bool:
        await delete(database, tenant, "doc-2")
        return False

    await fill(database, tenant)
    await delete(database, tenant, "doc-1")
    let_it_be_due(owner)
    monkeypatch.setattr(worker, "compact_if_due", delete_one_more)

    assert await worker_of(database).keep_one_up()

    soon = "SELECT due_at < now() + interval '10 seconds' FROM upkeep"
    assert owner.execute(soon).fetchall() == [(True,)]


async def test_a_worker_of_one_tenant_looks_after_no_other(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    for tenant in (mine, other):
        await fill(database, tenant)
    await delete(database, other, "doc-1")
    let_it_be_due(owner)
    pipeline = Pipeline(database, embedders(), parse_directly)

    assert not await Worker(database, pipeline, Metrics(), random.Random(0), only=mine).keep_one_up()

    assert owner.execute(WAITING).fetchone() == (1,)
