from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import psycopg
import pytest

from ingest import worker
from rag.protocols import Vectors
from rag.store import jobs
from rag.store.engine import Database
from rag.store.jobs import KEEP_DAYS, Upload, enqueue, prune_jobs
from rag.values import JobId, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder
from tests.integration.embedding import until
from tests.integration.uploads import FIRST, SECOND, document, queued, upload, worker_of


class RefillingEmbedder(FakeEmbedder):
    """Uploads two documents for each that it embeds."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        super().__init__(delay_s=0.05)
        self._database = database
        self._tenant = tenant

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        for _ in range(2):
            name = str(uuid4())
            await upload(self._database, self._tenant, name.encode(), name)
        return await super().embed_documents(texts)


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def ended(database: Database, tenant: TenantId, name: str) -> JobId:
    job = await upload(database, tenant, FIRST, name)
    await worker_of(database).run_one()
    return job


def age(owner: psycopg.Connection, job: JobId, days: float) -> None:
    owner.execute(
        "UPDATE jobs SET created_at = created_at - make_interval(hours => %(h)s),"
        " finished_at = finished_at - make_interval(hours => %(h)s) WHERE job_id = %(job)s",
        {"h": int(days * 24), "job": job},
    )


def left(owner: psycopg.Connection) -> set[JobId]:
    return {row[0] for row in owner.execute("SELECT job_id FROM jobs")}


async def test_only_jobs_that_ended_long_ago_are_deleted(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    old, young = await ended(database, tenant, "old"), await ended(database, tenant, "young")
    of_another, waiting = await ended(database, other, "old"), await upload(database, tenant, FIRST, "waiting")
    for job in (old, of_another, waiting):
        age(owner, job, KEEP_DAYS + 1)
    age(owner, young, KEEP_DAYS - 1)

    async with database.tenant(tenant) as tx:
        more = await prune_jobs(tx)

    assert not more
    assert left(owner) == {young, of_another, waiting}
    assert await document(database, tenant, "old") is not None


async def test_an_idempotency_key_lives_as_long_as_its_job(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    async with database.tenant(tenant) as tx:
        first, _ = await enqueue(tx, Upload("a.md", None, {}, FIRST), idempotency_key="key")
    await worker_of(database).run_one()
    age(owner, first, KEEP_DAYS + 1)

    async with database.tenant(tenant) as tx:
        await prune_jobs(tx)
        again, _ = await enqueue(tx, Upload("b.md", None, {}, SECOND), idempotency_key="key")

    assert left(owner) == {again}


async def test_a_worker_whose_queue_is_never_empty_deletes_old_jobs_too(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    old = await ended(database, tenant, "old")
    age(owner, old, KEEP_DAYS + 1)
    busy = worker_of(database, RefillingEmbedder(database, tenant))
    await upload(database, tenant, SECOND, "first")

    running = asyncio.create_task(busy.run())
    await until(lambda: old not in left(owner))
    still_waiting = queued(owner)
    running.cancel()
    await asyncio.wait([running])

    assert still_waiting > 0


async def test_a_tenant_that_has_become_quiet_is_not_forgotten(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PRUNE_EVERY_S", 0.2)
    quiet = await make_tenant()
    job = await upload(database, quiet, FIRST, "quiet")

    running = asyncio.create_task(worker_of(database).run())
    await until(lambda: not queued(owner))
    await asyncio.sleep(0.8)  # pruned once at least, while its job was young
    age(owner, job, KEEP_DAYS + 1)
    await until(lambda: not left(owner))
    running.cancel()
    await asyncio.wait([running])

    assert left(owner) == set()


async def test_a_worker_with_nothing_to_do_deletes_old_jobs_of_those_it_served_a_few_at_a_time(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PRUNE_EVERY_S", 0.1)
    monkeypatch.setattr(jobs, "PRUNE_ROWS", 2)
    old = [await ended(database, tenant, f"doc-{n}") for n in range(5)]
    for job in old:
        age(owner, job, KEEP_DAYS + 1)
    young = await upload(database, tenant, FIRST, "young")

    running = asyncio.create_task(worker_of(database).run())
    await until(lambda: left(owner) == {young})
    running.cancel()
    await asyncio.wait([running])

    assert left(owner) == {young}
