"""A PostgreSQL that is killed in the middle of a numbering has numbered nothing, and the next one does it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from rag.errors import StoreUnavailable
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.store.compaction import Numbering, numbering, renumber
from rag.store.engine import Database
from rag.store.tenancy import create_tenant
from rag.values import TenantId
from tests.conftest import open_service_database
from tests.fakes import embedders
from tests.integration.corpus import prepared, store
from tests.integration.crashing import Machine, running_machine
from tests.integration.embedding import until
from tests.integration.reading import Legs
from tests.integration.stored import Counters, Stored

ORDINALS = "SELECT array_agg(ord ORDER BY ord) FROM chunks WHERE tenant_id = %s"
WAITING = "SELECT 1 FROM pg_locks WHERE relation = %s::regclass AND NOT granted"


@pytest.fixture
def machine(process_environment: dict[str, str]) -> Iterator[Machine]:
    with running_machine(process_environment, random.Random(0)) as made:
        yield made


async def fill(database: Database, tenant: TenantId) -> None:
    for n in range(30):
        await store(database, tenant, [prepared(f"doc-{n}", f"A zebra of number {n}.", f"Its stable {n}.")])
        async with database.tenant(tenant) as tx:
            await tx.run("give_ordinals", added=5)


async def number_anew(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as tx:
        await renumber(tx)


def ordinals(machine: Machine, tenant: TenantId) -> list[int]:
    with psycopg.connect(machine.server.url) as owner:
        return next(list(row[0]) for row in owner.execute(ORDINALS, (tenant,)))


def legs_of(database: Database) -> Legs:
    return Legs(DenseLeg(database, embedders(), exact_below=10_000), LexicalLeg(database))


@pytest.mark.parametrize("table", ["embeddings", "postings", "indexes"])
async def test_a_kill_while_rows_move_leaves_all_as_it_was(machine: Machine, table: str) -> None:
    async with open_service_database(machine.server.url) as database:
        tenant = await create_tenant(database, "killed")
        await fill(database, tenant)
        before, found = ordinals(machine, tenant), await legs_of(database).find(tenant, "zebra")
        with psycopg.connect(machine.server.url) as owner:
            stored = Stored.of(owner, tenant)

        await _killed_at(machine, database, tenant, table)

    async with open_service_database(machine.server.url) as database:
        with psycopg.connect(machine.server.url, autocommit=True) as owner:
            assert ordinals(machine, tenant) == before
            assert Stored.of(owner, tenant) == stored
            assert await legs_of(database).find(tenant, "zebra") == found
            await number_anew(database, tenant)
            assert ordinals(machine, tenant) == list(range(60))
            assert Stored.of(owner, tenant) == stored
            assert Counters.told(owner, tenant) == Counters.counted(owner, tenant) == Counters(60, 0)
        assert await legs_of(database).find(tenant, "zebra") == found
        async with database.tenant(tenant) as tx:
            assert await numbering(tx) == Numbering(next_ord=60, alive=60, times=1)


async def _killed_at(machine: Machine, database: Database, tenant: TenantId, table: str) -> None:
    """Kill the server while a numbering waits to write the table, which somebody holds."""
    url = machine.server.url
    with closing(psycopg.connect(url)) as holder, closing(psycopg.connect(url, autocommit=True)) as owner:
        holder.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.Identifier(table)))
        task = asyncio.create_task(number_anew(database, tenant))
        await until(lambda: task.done() or owner.execute(WAITING, (table,)).fetchall())
        assert not task.done()
        await asyncio.to_thread(machine.kill, "postgres")
        with pytest.raises(StoreUnavailable):
            await task
