"""Work that outlasts a database that is away for a while, as one that restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rag.errors import StoreUnavailable
from rag.store.engine import Database, TenantTx
from rag.values import TenantId

OUTAGE_S = 60.0  # how long the database may be away before a command gives up; what it has stored stays
PAUSE_S = 0.2  # between attempts

T = TypeVar("T")


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """What *work* gives, tried again while the database is away.

    Raises StoreUnavailable when it stays away.
    """
    away_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return await work()
        except StoreUnavailable:
            failed = time.monotonic()
            if away_since is None or failed - began > OUTAGE_S:  # so long at work, it had a database meanwhile
                away_since = failed
            if failed - away_since > OUTAGE_S:
                raise
            await asyncio.sleep(PAUSE_S)


async def in_tenant(database: Database, tenant: TenantId, work: Callable[[TenantTx], Awaitable[T]]) -> T:
    """What *work* gives in a transaction of the tenant, patiently: each attempt is a transaction of its own."""

    async def once() -> T:
        async with database.tenant(tenant) as tx:
            return await work(tx)

    return await patiently(once)
