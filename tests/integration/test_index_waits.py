"""Uploads whose tenant's index the worker cannot write to: they wait for it, and lose nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from ingest.pipeline import Pipeline
from ingest.run import Run as IngestRun
from ingest.sources import find_files
from ingest.worker import MAX_ATTEMPTS, MAX_TRIES
from rag.errors import IndexMismatch
from rag.store.engine import Database
from rag.values import JobId, TenantId, tenant_id
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.commands import NAME, Run
from tests.integration.indexes import OtherEmbedder, ingest
from tests.integration.uploads import document, job_of, make_due, queued, upload, worker_of

REASON = (
    "the tenant's index was made with embedder fake-embedder, and here is only other-embedder;"
    " name both in RAG_EMBEDDER, separated by a comma, until `rag reindex` has moved the tenant"
)


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def waiting_jobs(database: Database, tenant: TenantId) -> list[JobId]:
    await ingest(database, tenant, {"first.md": "A zebra is here."})
    return [await upload(database, tenant, f"This is text {n}.".encode(), f"doc-{n}") for n in range(3)]


async def test_uploads_wait_for_an_index_that_fits_however_long_it_takes(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    jobs = await waiting_jobs(database, tenant)
    unfit = worker_of(database, OtherEmbedder())

    for _ in range(max(MAX_ATTEMPTS, MAX_TRIES) + 1):
        assert await unfit.run_one()  # all of them: they are tried together each time
        assert not await unfit.run_one()
        make_due(owner)
    waiting = [await job_of(database, tenant, job) for job in jobs]
    await worker_of(database).run_one()

    done = [await job_of(database, tenant, job) for job in jobs]
    assert {(job.state, job.attempts, job.error_code, job.error_detail) for job in waiting} == {
        ("queued", 0, "index_mismatch", REASON)
    }
    assert {job.stage for job in waiting} == {"waiting to try again"}
    assert {(job.state, job.attempts, job.error_code) for job in done} == {("done", 1, None)}
    assert queued(owner) == 0


async def test_they_wait_about_a_minute_and_hold_up_no_other_tenant(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    await waiting_jobs(database, tenant)
    theirs = await upload(database, other)
    worker = worker_of(database, OtherEmbedder())

    ran = [await worker.run_one() for _ in range(3)]

    delays = "SELECT min(run_at) > now() + interval '40 s', max(run_at) < now() + interval '80 s' FROM job_queue"
    assert ran == [True, True, False]
    assert (await job_of(database, other, theirs)).state == "done"
    assert owner.execute(delays).fetchone() == (True, True)


async def test_a_run_ends_when_the_index_ceases_to_fit_while_it_is_followed(
    database: Database, tenant: TenantId, owner: psycopg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "new.md").write_text("A zebra is new.")
    run = IngestRun(database, tenant)
    await run.enqueue(find_files([tmp_path]).found)
    await ingest(database, tenant, {"first.md": "A zebra is here."}, embedders(FakeEmbedder()))
    pipeline = Pipeline(database, embedders(OtherEmbedder()), parse_directly)
    enqueued: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    enqueued.set_result(None)

    with pytest.raises(IndexMismatch, match="rag reindex"):
        async with asyncio.timeout(20):
            await run.follow(enqueued, lambda _: None, lambda: pipeline.check(tenant))

    assert run.progress.waiting == queued(owner) == 1
    assert await document(database, tenant, "new.md") is None


async def test_the_command_fails_at_once_and_puts_nothing_into_the_queue(
    database: Database, run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    await ingest(database, tenant_id(NAME), {"first.md": "A zebra is here."}, embedders(FakeEmbedder()))
    (tmp_path / "new.md").write_text("A zebra is new.")

    done, synced = run("ingest", tmp_path), run("ingest", tmp_path, "--sync")

    assert (done.returncode, synced.returncode) == (1, 1)
    for command in (done, synced):
        assert "rag: the tenant's index was made with embedder fake-embedder" in command.stderr
        assert "`rag reindex`" in command.stderr
    assert owner.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
