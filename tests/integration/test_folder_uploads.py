from __future__ import annotations

import asyncio

import psycopg
import pytest

from rag.store.engine import Database
from rag.store.folders import delete_from_folder
from rag.store.jobs import Upload, enqueue
from rag.values import TenantId
from tests.integration.uploads import FIRST, queued

NAMES = [f"doc-{n}" for n in range(12)]


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def put(database: Database, tenant: TenantId, *, folder: str) -> None:
    for name in NAMES:
        async with database.tenant(tenant) as tx:
            await enqueue(tx, Upload(name, "text/markdown", {}, FIRST, folder=folder))


async def withdraw(database: Database, tenant: TenantId) -> set[str]:
    async with database.tenant(tenant) as tx:
        return await delete_from_folder(tx, NAMES, folder="handbooks")


async def test_uploads_that_are_withdrawn_leave_the_queue(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await put(database, tenant, folder="handbooks")

    withdrawn = await withdraw(database, tenant)

    assert withdrawn == set(NAMES)
    assert owner.execute("SELECT DISTINCT state FROM jobs").fetchall() == [("cancelled",)]
    assert queued(owner) == 0


async def test_withdrawing_locks_uploads_by_id_so_that_it_waits_for_nobody_in_a_circle(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await put(database, tenant, folder="handbooks")
    owner.execute("ANALYZE jobs")  # of few rows a plan reads them as they lie, which is no order of ids

    with owner.transaction():
        owner.execute("SELECT FROM jobs ORDER BY job_id LIMIT 1 FOR UPDATE")
        withdrawing = asyncio.create_task(withdraw(database, tenant))
        await asyncio.sleep(0.3)
        free = owner.execute("SELECT FROM jobs FOR UPDATE SKIP LOCKED").fetchall()

    assert await withdrawing == set(NAMES)
    assert len(free) == len(NAMES)
