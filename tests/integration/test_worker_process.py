from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from rag.inference.onnx import OnnxEmbedder
from rag.store.engine import Database
from rag.values import JobId, TenantId
from tests.conftest import REPOSITORY
from tests.integration.uploads import (
    FIRST,
    SECOND,
    document,
    end_leases,
    job_of,
    upload,
    worker_of,
)

PARTS = 400  # seconds of embedding
LONG = b"\n\n".join(b"# Part %d\n\n" % n + b"A refund takes nine days and no less. " * 20 for n in range(PARTS))


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


@contextmanager
def worker_process(url: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rag", "worker"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env={**environment, "DATABASE_URL": url}, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.02)


def chunks_stored(owner: psycopg.Connection, tenant: TenantId) -> int:
    count = "SELECT count(*) FROM chunks JOIN embeddings USING (tenant_id, ord) WHERE tenant_id = %s"
    return next(int(row[0]) for row in owner.execute(count, (tenant,)))


async def test_a_worker_killed_while_it_embeds_leaves_the_old_document_and_another_finishes(
    database: Database,
    tenant: TenantId,
    owner: psycopg.Connection,
    database_url: str,
    process_environment: dict[str, str],
    embedder: OnnxEmbedder,
) -> None:
    await upload(database, tenant, FIRST)
    await worker_of(database, embedder).run_one()
    old = await document(database, tenant)
    job_id = await upload(database, tenant, LONG)

    async def embedding() -> bool:
        return (await job_of(database, tenant, job_id)).stage == "embedding"

    with worker_process(database_url, process_environment) as process:
        await until(embedding)
        process.kill()
        process.wait()
    killed, left = await job_of(database, tenant, job_id), await document(database, tenant)
    end_leases(owner)
    await worker_of(database, embedder).run_one()

    job, new = await job_of(database, tenant, job_id), await document(database, tenant)
    assert (killed.state, killed.attempts) == ("running", 1)
    assert left == old
    assert (job.state, job.attempts) == ("done", 2)
    assert new is not None
    assert (new.text or "").count("Part ") == PARTS
    assert new.chunks == job.chunks == chunks_stored(owner, tenant)


async def test_a_worker_killed_while_it_writes_leaves_the_old_document_and_another_finishes(
    database: Database,
    tenant: TenantId,
    owner: psycopg.Connection,
    database_url: str,
    process_environment: dict[str, str],
    embedder: OnnxEmbedder,
) -> None:
    await upload(database, tenant, FIRST)
    await worker_of(database, embedder).run_one()
    old = await document(database, tenant)
    job_id = await upload(database, tenant, SECOND)

    async def writing() -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'embeddings'::regclass AND NOT granted"
        return owner.execute(waiting).fetchone() == (1,)

    with worker_process(database_url, process_environment) as process, owner.transaction():
        owner.execute("LOCK TABLE embeddings IN SHARE MODE")  # holds the write up between chunks and vectors
        await until(writing)
        process.kill()
        process.wait()
    left = await document(database, tenant)
    end_leases(owner)
    await worker_of(database, embedder).run_one()

    job, new = await job_of(database, tenant, job_id), await document(database, tenant)
    assert left == old
    assert (job.state, job.attempts) == ("done", 2)
    assert new is not None
    assert "nine" in (new.text or "")
    assert new.chunks == job.chunks == chunks_stored(owner, tenant) == 1


async def test_a_worker_process_runs_jobs_that_come_while_it_waits(
    database: Database, tenant: TenantId, database_url: str, process_environment: dict[str, str]
) -> None:
    async def done(job_id: JobId) -> bool:
        return (await job_of(database, tenant, job_id)).state == "done"

    with worker_process(database_url, process_environment):
        first = await upload(database, tenant, FIRST)
        await until(lambda: done(first))
        second = await upload(database, tenant, SECOND)
        await until(lambda: done(second))

    stored = await document(database, tenant)
    assert stored is not None
    assert "nine" in (stored.text or "")
