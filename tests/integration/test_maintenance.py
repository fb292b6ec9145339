"""What a worker does for an index after a batch: nothing of it is the batch's affair."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from structlog.testing import capture_logs

from ingest import worker
from rag.errors import StoreError, StoreUnavailable
from rag.store.answers import AnswerToKeep, keep_answer
from rag.store.engine import Database, TenantTx
from rag.values import TenantId
from tests.integration.caching import REFUNDS
from tests.integration.corpus import passage_of
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


async def test_a_worker_deletes_stale_answers_of_the_tenant_and_leaves_those_that_somebody_holds(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    source = passage_of(filled, REFUNDS)
    async with database.tenant(filled) as tx:
        for key in (b"fresh", b"stale", b"held"):
            await keep_answer(tx, AnswerToKeep(key, b"", "{}", (source,)), ttl_s=60, most_bytes=10**6)
    owner.execute("UPDATE answer_cache SET expires_at = now() WHERE tenant_id = %s AND key <> 'fresh'", (filled,))
    await upload(database, filled)

    with owner.transaction():
        owner.execute("SELECT FROM answer_cache WHERE tenant_id = %s AND key = 'held' FOR UPDATE", (filled,))
        async with asyncio.timeout(10):
            assert await worker_of(database).run_one()

    keys = owner.execute("SELECT key FROM answer_cache WHERE tenant_id = %s ORDER BY key", (filled,)).fetchall()
    assert keys == [(b"fresh",), (b"held",)]


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
