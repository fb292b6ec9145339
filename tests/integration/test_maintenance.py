"""What a worker does for an index after a batch: nothing of it is the batch's affair."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from structlog.testing import capture_logs

from ingest import worker
from rag.errors import StoreError, StoreUnavailable
from rag.store.engine import Database, TenantTx
from rag.values import TenantId
from tests.integration.embedding import until
from tests.integration.uploads import SECOND, end_leases, job_of, make_due, upload, worker_of


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


@pytest.mark.parametrize("error", [StoreError("a block is damaged"), StoreUnavailable("the lock took too long")])
async def test_an_index_that_cannot_be_tidied_is_no_error_of_the_jobs_that_are_done(
    database: Database,
    tenant: TenantId,
    monkeypatch: pytest.MonkeyPatch,
    error: StoreError,
) -> None:
    async def fail(_: TenantTx) -> bool:
        raise error

    monkeypatch.setattr(worker, "compact_if_due", fail)
    job = await upload(database, tenant)

    with capture_logs() as logs:
        assert await worker_of(database).run_one()

    assert (await job_of(database, tenant, job)).state == "done"
    assert [entry["event"] for entry in logs] == ["index not tidied"]


async def test_a_job_that_must_be_alone_does_not_wait_until_the_index_is_tidy(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tidying = asyncio.Event(), asyncio.Event()

    async def dawdle(_: TenantTx) -> bool:
        tidying.set()
        return await gate.wait()

    monkeypatch.setattr(worker, "compact_if_due", dawdle)
    await upload(database, tenant)
    busy = worker_of(database)
    first = asyncio.create_task(busy.run_one())
    await until(tidying.is_set)
    tried = await upload(database, tenant, SECOND, "tried")
    owner.execute("UPDATE job_queue SET tries = 1")
    make_due(owner)
    end_leases(owner)

    alone = asyncio.create_task(busy.run_one())
    await until(lambda: owner.execute("SELECT FROM jobs WHERE external_id = 'tried' AND state = 'done'").fetchall())
    gate.set()
    await asyncio.gather(first, alone)

    assert (await job_of(database, tenant, tried)).attempts == 1
