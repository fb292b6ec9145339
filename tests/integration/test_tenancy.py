from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from rag.calls import Attempt, Usage
from rag.errors import Conflict, NotFound, StoreError
from rag.store.answers import AnswerToKeep, keep_answer
from rag.store.budgets import put_budget, reserve
from rag.store.engine import Connection, Database, open_database
from rag.store.jobs import Upload, enqueue
from rag.store.ledger import Entry, Settlement, settle
from rag.store.messages import Asked
from rag.store.neighbours import graph_if_large
from rag.store.schema import metadata
from rag.store.tenancy import create_key, create_tenant, delete_tenant, find_tenant
from rag.store.upkeep import ask_upkeep
from rag.values import TenantId, tenant_id
from tests.conftest import MakeTenant
from tests.integration.corpus import passage_of, prepared, store

Statement = sql.SQL | sql.Composed

TABLES = sorted(metadata.tables)
CHANGEABLE = [table for table in TABLES if table != "ledger"]
SEEN_BY_WORKERS = ("job_queue", "upkeep")
ATTEMPT = Attempt(1, "here", "some-model", "answered", Usage(input_uncached=70, output=7))


@pytest.fixture
async def pair(database: Database, make_tenant: MakeTenant) -> tuple[TenantId, TenantId]:
    """Two tenants with the same content, a row in every table each."""
    tenants = await make_tenant(), await make_tenant()
    for tenant in tenants:
        await fill(database, tenant)
    return tenants


@pytest.fixture
async def single(database_url: str) -> AsyncIterator[Database]:
    """One connection only, so that everybody gets the one that was used before."""
    async with open_database(database_url, size=1, timeout_s=5.0) as opened:
        yield opened


async def fill(database: Database, tenant: TenantId) -> None:
    handbook = prepared("handbook.md", "Refunds take five days.", "Parcels go by train.")
    await store(database, tenant, [handbook])
    await create_key(database, tenant, scopes=frozenset({"query"}), groups=frozenset())
    async with database.tenant(tenant) as tx:
        await enqueue(tx, Upload("other.md", "text/markdown", {}, b"# Other"))
        answer = AnswerToKeep(b"key", b"kin", "{}", (passage_of(tenant, handbook),))
        assert await keep_answer(tx, answer, ttl_s=60, most_bytes=10**6)
    async with database.tenant(tenant) as tx:
        await put_budget(tx, "tokens", "day", Decimal(1000))
        await ask_upkeep(tx)
    await reserve(database, tenant, uuid4(), tokens=100, money=None, lasts_s=60)
    await settle(database, tenant, [Settlement(uuid4(), "query", "answer", (Entry(ATTEMPT, "somebody", None),))])
    await graph_if_large(database, tenant, above=0)


async def become(connection: Connection, tenant: TenantId) -> None:
    await connection.execute("SELECT set_config('app.tenant_id', %s, true)", (str(tenant),))


async def execute_as(database: Database, statement: Statement, *parameters: object, tenant: TenantId) -> None:
    async with database.bare() as connection:
        await become(connection, tenant)
        await connection.execute(statement, parameters)


async def execute_as_worker(database: Database, statement: Statement, tenant: TenantId) -> None:
    async with database.bare() as connection:
        await connection.execute("SET LOCAL ROLE rag_worker")
        await become(connection, tenant)
        await connection.execute(statement)


async def fail_as(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as tx:
        await tx.fetch("find_tenant")
        raise ZeroDivisionError


def rows_of(owner: psycopg.Connection, table: str, tenant: TenantId) -> int:
    count = sql.SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(sql.Identifier(table))
    return next(int(row[0]) for row in owner.execute(count, (tenant,)))


async def scalar(connection: Connection, query: str, table: str = "") -> object:
    cursor = await connection.execute(sql.SQL(query).format(sql.Identifier(table)))
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("table", TABLES)
async def test_without_a_tenant_every_table_is_empty(
    database: Database, pair: tuple[TenantId, TenantId], owner: psycopg.Connection, table: str
) -> None:
    async with database.bare() as connection:
        seen = await scalar(connection, "SELECT count(*) FROM {}", table)

    assert seen == 0
    assert all(rows_of(owner, table, tenant) > 0 for tenant in pair)


@pytest.mark.parametrize("setting", ["", "not-a-uuid"])
async def test_an_emptied_or_broken_tenant_setting_opens_nothing(
    database: Database, pair: tuple[TenantId, TenantId], setting: str
) -> None:
    async def count() -> object:
        async with database.bare() as connection:
            await connection.execute("SELECT set_config('app.tenant_id', %s, true)", (setting,))
            return await scalar(connection, "SELECT count(*) FROM documents")

    if setting:
        with pytest.raises(StoreError):
            await count()
    else:
        assert await count() == 0


@pytest.mark.parametrize("table", TABLES)
async def test_a_query_without_where_reads_the_tenants_own_rows_only(
    database: Database, pair: tuple[TenantId, TenantId], table: str
) -> None:
    mine, _ = pair

    async with database.bare() as connection:
        await become(connection, mine)
        cursor = await connection.execute(sql.SQL("SELECT DISTINCT tenant_id FROM {}").format(sql.Identifier(table)))
        seen = await cursor.fetchall()

    assert seen == [(mine,)]


@pytest.mark.parametrize("table", CHANGEABLE)
async def test_updates_and_deletes_without_where_leave_the_other_tenant_alone(
    database: Database, pair: tuple[TenantId, TenantId], owner: psycopg.Connection, table: str
) -> None:
    mine, other = pair
    before = rows_of(owner, table, other)

    async with database.bare() as connection:
        await become(connection, mine)
        await connection.execute(sql.SQL("UPDATE {} SET tenant_id = tenant_id").format(sql.Identifier(table)))
        await connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))

    assert rows_of(owner, table, mine) == 0
    assert rows_of(owner, table, other) == before > 0


@pytest.mark.parametrize("table", CHANGEABLE)
async def test_moving_a_row_to_another_tenant_is_refused(
    database: Database, pair: tuple[TenantId, TenantId], table: str
) -> None:
    mine, other = pair
    # tables with partitions refuse by row-level security as well, before the row would move
    move = sql.SQL("UPDATE {} SET tenant_id = {}").format(sql.Identifier(table), sql.Literal(str(other)))

    with pytest.raises(StoreError, match="row-level security"):
        await execute_as(database, move, tenant=mine)


@pytest.mark.parametrize(
    "change", ["UPDATE ledger SET output = 0", "DELETE FROM ledger", "TRUNCATE ledger", "DROP TABLE ledger"]
)
async def test_the_service_can_neither_change_nor_delete_what_is_in_the_ledger(
    database: Database, pair: tuple[TenantId, TenantId], owner: psycopg.Connection, change: LiteralString
) -> None:
    with pytest.raises(StoreError, match=r"permission denied|must be owner"):
        await execute_as(database, sql.SQL(change), tenant=pair[0])

    assert rows_of(owner, "ledger", pair[0]) == 1


async def test_inserting_for_another_tenant_is_refused(database: Database, pair: tuple[TenantId, TenantId]) -> None:
    mine, other = pair
    insert = sql.SQL("INSERT INTO postings (tenant_id, term, block, n, ords, weights) VALUES (%s, 1, 0, 0, '', '')")

    with pytest.raises(StoreError, match="row-level security"):
        await execute_as(database, insert, other, tenant=mine)


@pytest.mark.parametrize("partition", ["chunks_0", "embeddings_7"])
async def test_a_partition_cannot_be_asked_directly(
    database: Database, pair: tuple[TenantId, TenantId], partition: str
) -> None:
    read = sql.SQL("SELECT * FROM {}").format(sql.Identifier(partition))

    with pytest.raises(StoreError, match="permission denied"):
        await execute_as(database, read, tenant=pair[0])


@pytest.mark.parametrize(
    "statement",
    [
        sql.SQL("ALTER TABLE documents DISABLE ROW LEVEL SECURITY"),
        sql.SQL("DROP POLICY one_tenant ON documents"),
        sql.SQL("ALTER ROLE rag_app BYPASSRLS"),
    ],
)
async def test_the_service_cannot_switch_its_protection_off(
    database: Database, tenant: TenantId, statement: sql.SQL
) -> None:
    with pytest.raises(StoreError, match=r"must be owner|permission denied"):
        await execute_as(database, statement, tenant=tenant)


async def test_a_connection_that_went_through_the_pool_keeps_no_tenant(
    single: Database, pair: tuple[TenantId, TenantId]
) -> None:
    async with single.tenant(pair[0]) as tx:
        assert await tx.fetch("find_tenant")

    async with single.bare() as connection:
        setting = await scalar(connection, "SELECT coalesce(current_setting('app.tenant_id', true), '')")
        seen = await scalar(connection, "SELECT count(*) FROM documents")

    assert (setting, seen) == ("", 0)


async def test_a_transaction_that_failed_keeps_no_tenant(single: Database, pair: tuple[TenantId, TenantId]) -> None:
    with pytest.raises(ZeroDivisionError):
        await fail_as(single, pair[0])

    async with single.bare() as connection:
        assert await scalar(connection, "SELECT count(*) FROM tenants") == 0


async def test_a_connection_is_in_the_services_role_again_after_worker_and_tuned_transactions(
    single: Database, pair: tuple[TenantId, TenantId]
) -> None:
    async with single.bare() as connection:
        expected = await scalar(connection, "SHOW enable_sort")
    async with single.worker() as worker:
        assert await worker.fetch("claim_jobs", only=None, lease_s=0.0, most_jobs=1, most_bytes=1)
    async with single.snapshot(pair[0]) as tx:
        await tx.ask(Asked("SELECT 1", {}, {"enable_sort": "off"}))

    async with single.bare() as connection:
        assert await scalar(connection, "SELECT current_user::text") == "rag_app"
        assert await scalar(connection, "SHOW enable_sort") == expected


@pytest.mark.parametrize("table", SEEN_BY_WORKERS)
async def test_the_workers_role_sees_which_tenants_have_work_waiting(
    database: Database, pair: tuple[TenantId, TenantId], table: str
) -> None:
    async with database.bare() as connection:
        await connection.execute("SET LOCAL ROLE rag_worker")
        read = sql.SQL("SELECT DISTINCT tenant_id FROM {}").format(sql.Identifier(table))
        cursor = await connection.execute(read)
        seen = {row[0] for row in await cursor.fetchall()}

    assert set(pair) <= seen


@pytest.mark.parametrize("table", [table for table in TABLES if table not in SEEN_BY_WORKERS])
async def test_the_workers_role_sees_no_other_table(
    database: Database, pair: tuple[TenantId, TenantId], table: str
) -> None:
    read = sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))

    with pytest.raises(StoreError, match="permission denied"):
        await execute_as_worker(database, read, pair[0])


@pytest.mark.parametrize(
    "statement",
    [
        sql.SQL(change).format(sql.Identifier(table))
        for table in SEEN_BY_WORKERS
        for change in ("DELETE FROM {0}", "INSERT INTO {0} SELECT * FROM {0}")
    ],
)
async def test_the_workers_role_can_neither_add_to_the_queue_nor_take_from_it(
    database: Database, tenant: TenantId, statement: sql.SQL
) -> None:
    with pytest.raises(StoreError, match="permission denied"):
        await execute_as_worker(database, statement, tenant)


async def test_a_tenants_name_is_taken_once(database: Database, make_tenant: MakeTenant) -> None:
    await make_tenant("acme")

    with pytest.raises(Conflict, match="acme"):
        await create_tenant(database, "acme")

    assert await find_tenant(database, "acme") == tenant_id("acme")


async def test_an_unknown_tenant_is_named_with_the_command_that_makes_it(database: Database) -> None:
    with pytest.raises(NotFound, match="rag tenant create nobody"):
        await find_tenant(database, "nobody")


async def test_deleting_a_tenant_leaves_no_row_of_it_and_the_other_whole(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    gone, kept = await make_tenant("leaving"), await make_tenant("staying")
    await fill(database, gone)
    await fill(database, kept)

    await delete_tenant(database, "leaving")

    assert [table for table in TABLES if rows_of(owner, table, gone)] == []
    assert [table for table in TABLES if not rows_of(owner, table, kept)] == []
    with pytest.raises(NotFound):
        await delete_tenant(database, "leaving")
