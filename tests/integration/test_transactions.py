"""What goes over the connection with a tenant's statements, and what stays on it: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text

from rag.errors import StoreError
from rag.store.engine import Compiled, Database, TenantTx, open_database
from rag.store.messages import Asked, one_message
from rag.values import TenantId
from tests.conftest import MakeTenant

Open = Callable[[Database, TenantId], AbstractAsyncContextManager[TenantTx]]

EVERY = pytest.mark.parametrize("opened", [Database.tenant, Database.snapshot, Database.reading])
WHO = Compiled.of(text("SELECT current_user::text, current_setting('app.tenant_id', true)"))
NAMES = Compiled.of(text("SELECT name FROM tenants"))
MOMENT = Compiled.of(text("SELECT txid_current_snapshot()::text, now()"))


@pytest.fixture
async def single(database_url: str) -> AsyncIterator[Database]:
    """One connection only, so that everybody gets the one that was used before."""
    async with open_database(database_url, size=1, timeout_s=5.0) as opened:
        yield opened


async def left_behind(database: Database) -> tuple[str, str]:
    """The role and the tenant that are set on the connection when nobody uses it."""
    async with database._pool.connection() as connection:
        cursor = await connection.execute("SELECT current_user, coalesce(current_setting('app.tenant_id', true), '')")
        [row] = await cursor.fetchall()
    return row[0], row[1]


@EVERY
async def test_each_statement_runs_as_the_service_and_sees_its_tenant_alone(
    single: Database, make_tenant: MakeTenant, opened: Open
) -> None:
    mine, _ = await make_tenant(), await make_tenant()

    async with opened(single, mine) as tx:
        first, names = await tx.select(WHO), await tx.select(NAMES)
        last = await tx.select(WHO)

    assert first == last == [("rag_app", str(mine))]
    assert len(names) == 1


@EVERY
async def test_nothing_stays_on_the_connection(single: Database, tenant: TenantId, opened: Open) -> None:
    untouched = await left_behind(single)

    async with opened(single, tenant) as tx:
        await tx.select(WHO)

    assert await left_behind(single) == untouched
    assert untouched[0] != "rag_app"
    assert untouched[1] == ""


@EVERY
async def test_nothing_stays_of_a_statement_that_failed(single: Database, tenant: TenantId, opened: Open) -> None:
    with pytest.raises(StoreError, match="division by zero"):
        await select(single, tenant, opened, "SELECT 1 / 0")

    assert (await left_behind(single))[1] == ""
    assert await select(single, tenant, opened, "SELECT 7") == [(7,)]


@EVERY
async def test_nothing_stays_of_a_statement_that_nobody_waits_for_any_more(
    single: Database, tenant: TenantId, opened: Open
) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(select(single, tenant, opened, "SELECT pg_sleep(30)"), 0.3)

    assert (await left_behind(single))[1] == ""
    assert await select(single, tenant, opened, "SELECT 7") == [(7,)]


async def select(database: Database, tenant: TenantId, opened: Open, query: str) -> list[tuple[object, ...]]:
    async with opened(database, tenant) as tx:
        return await tx.select(Compiled.of(text(query)))


async def test_statements_of_a_snapshot_see_one_moment_and_those_of_a_reading_each_its_own(
    database: Database, tenant: TenantId
) -> None:
    async with database.snapshot(tenant) as tx:
        in_one = [await tx.select(MOMENT) for _ in range(2)]
    async with database.reading(tenant) as tx:
        apart = [await tx.select(MOMENT) for _ in range(2)]

    assert in_one[0] == in_one[1]
    assert apart[0] != apart[1]


async def test_settings_hold_for_their_statement_alone(single: Database, tenant: TenantId) -> None:
    sorting = Asked("SELECT current_setting('enable_sort')", {})
    tuned = replace(sorting, settings={"enable_sort": "off"})

    async with single.snapshot(tenant) as tx:
        in_one = [await tx.ask(asked) for asked in (sorting, tuned, tuned, sorting)]
        in_one_message = await tx.ask_all(sorting, tuned, tuned, sorting)
    async with single.reading(tenant) as tx:
        apart = [await tx.ask(asked) for asked in (tuned, sorting)]
        apart_in_one_message = await tx.ask_all(tuned, sorting)

    assert in_one == in_one_message == [[("on",)], [("off",)], [("off",)], [("on",)]]
    assert apart == apart_in_one_message == [[("off",)], [("on",)]]


async def test_statements_in_one_message_of_a_reading_see_one_moment(database: Database, tenant: TenantId) -> None:
    async with database.reading(tenant) as tx:
        first, second = await tx.ask_all(MOMENT.asked(), MOMENT.asked())

    assert first == second


async def test_nothing_of_a_message_is_sent_before_its_end(single: Database, owner: psycopg.Connection) -> None:
    last = "SELECT query FROM pg_stat_activity WHERE pid = %s"

    async with single._pool.connection() as connection:
        async with one_message(connection):
            cursors = [await connection.execute(query) for query in ("SELECT 1", "SELECT 2")]
            await asyncio.sleep(0.1)
            [[before]] = owner.execute(last, (connection.info.backend_pid,)).fetchall()
        [[afterwards]] = owner.execute(last, (connection.info.backend_pid,)).fetchall()
        found = [await cursor.fetchall() for cursor in cursors]

    assert "SELECT 1" not in before
    assert afterwards == "SELECT 2"
    assert found == [[(1,)], [(2,)]]


@pytest.mark.parametrize("opened", [Database.snapshot, Database.reading])
async def test_what_only_reads_writes_no_rows(database: Database, tenant: TenantId, opened: Open) -> None:
    async with opened(database, tenant) as tx:
        with pytest.raises(StoreError, match="no transaction"):
            await tx.run("delete_tenant")
        with pytest.raises(StoreError, match="no transaction"):
            await tx.run_many("find_tenant", [{}])
        with pytest.raises(StoreError, match="no transaction"):
            await tx.copy("stage_chunks", [], [])
