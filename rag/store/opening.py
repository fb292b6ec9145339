"""The way to a usable database: embedded or given, migrated, and proven to enforce tenancy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from rag.errors import RagError, SetupError
from rag.settings import Settings
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import Database, open_database
from rag.store.migration import migrate, self_test
from rag.store.roll import roll
from rag.telemetry import log

WATCH_S = 1.0  # between looks at the embedded server


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[Database]:
    """The database at DATABASE_URL, or else the embedded one.

    Raises SetupError when it cannot hold the service, StoreUnavailable when it cannot be reached.
    """
    async with AsyncExitStack() as stack:
        url, _ = await _migrated(settings, stack)
        database = await stack.enter_async_context(
            open_database(url, size=settings.pool_size, timeout_s=settings.pool_timeout_s)
        )
        await self_test(database)
        yield database


async def tenants_of_all(settings: Settings) -> list[tuple[str, int]]:
    """The name of every tenant, in order, and how many documents it has: as the database's owner sees them.

    Raises SetupError when not even the owner sees the rows of all tenants.
    """
    async with AsyncExitStack() as stack:
        _, owner_url = await _migrated(settings, stack)
        return await asyncio.to_thread(roll, owner_url)


async def _migrated(settings: Settings, stack: AsyncExitStack) -> tuple[str, str]:
    """The addresses of the database for the service and for its owner."""
    if settings.database_url is None:
        url = owner_url = await stack.enter_async_context(_embedded(settings))
    else:
        url = _address(settings.database_url)
        owner_url = _address(settings.migration_database_url or settings.database_url)
    await asyncio.to_thread(migrate, owner_url)
    return url, owner_url


def _address(given: SecretStr) -> str:
    url = given.get_secret_value()
    try:
        conninfo_to_dict(url)
    except ProgrammingError:  # not chained: the driver's text repeats the address, password and all
        raise SetupError(
            "the database address is none of PostgreSQL's; write postgresql://user:password@host:5432/database"
        ) from None
    return url


@asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator[str]:
    server = EmbeddedPostgres(settings.home)
    await asyncio.to_thread(server.start)
    watch = asyncio.create_task(_keep_running(server))
    try:
        yield server.url
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(server.stop)


async def _keep_running(server: EmbeddedPostgres) -> None:
    """Start the embedded server again when it was killed."""
    while True:
        await asyncio.sleep(WATCH_S)
        if await asyncio.to_thread(server.accepts):
            continue
        log.warning("embedded database gone, starting it again")
        try:
            await asyncio.to_thread(server.start)
        except (RagError, OSError) as exc:  # the next look tries again
            log.warning("embedded database did not start", detail=str(exc))
