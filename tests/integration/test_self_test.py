from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from rag.errors import SetupError
from rag.store.engine import Connection, Database, open_database
from rag.store.migration import self_test
from rag.store.schema import metadata

TABLES = sorted(metadata.tables)


@pytest.mark.parametrize("switch", ["DISABLE", "NO FORCE"])
async def test_the_self_test_names_a_table_without_row_level_security(clone: Callable[[], str], switch: str) -> None:
    url = clone()
    async with open_database(url, size=1, timeout_s=5.0) as opened:
        for table in TABLES:
            with psycopg.connect(url) as connection:
                connection.execute(f"ALTER TABLE {table} {switch} ROW LEVEL SECURITY")

            with pytest.raises(SetupError, match=rf"not forced on {table};"):
                await self_test(opened)

            with psycopg.connect(url) as connection:
                connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        await self_test(opened)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ALTER POLICY one_tenant ON tenants USING (true)", "without a tenant"),
        ("DELETE FROM tenants WHERE name = 'start-up probe'", "probe row is missing"),
    ],
)
async def test_the_self_test_refuses_what_it_cannot_prove(clone: Callable[[], str], change: str, reason: str) -> None:
    url = clone()
    with psycopg.connect(url) as connection:
        connection.execute(change)

    async with open_database(url, size=1, timeout_s=5.0) as opened:
        with pytest.raises(SetupError, match=reason):
            await self_test(opened)


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS"])
async def test_the_self_test_refuses_a_role_that_bypasses_row_level_security(
    database: Database, owner: psycopg.Connection, power: str
) -> None:
    owner.execute(f"ALTER ROLE rag_app {power}")
    try:
        with pytest.raises(SetupError, match="bypasses row-level security"):
            await self_test(database)
    finally:
        owner.execute(f"ALTER ROLE rag_app NO{power}")


async def test_a_connection_that_was_never_set_up_still_runs_as_the_service(database_url: str) -> None:
    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(database_url, min_size=1, open=False)
    await pool.open()

    await self_test(Database(pool))

    await pool.close()
