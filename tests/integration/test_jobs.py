from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

import psycopg
import pytest

from ingest.pipeline import Pipeline
from ingest.worker import MAX_ATTEMPTS, Worker
from rag.errors import Conflict, NotFound, UpstreamError
from rag.protocols import Vectors
from rag.store import queue
from rag.store.engine import Database
from rag.store.queue import Claim, begin_jobs, claim, extend_leases
from rag.telemetry import Metrics
from rag.values import JobId, TenantId, document_id
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.uploads import (
    FIRST,
    SECOND,
    cancel,
    document,
    end_leases,
    job_of,
    make_due,
    queued,
    upload,
    worker_of,
)


class HookedEmbedder(FakeEmbedder):
    """Runs *hook* once, in the middle of a job."""

    def __init__(self, hook: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._hook: Callable[[], Awaitable[object]] | None = hook

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        hook, self._hook = self._hook, None
        if hook is not None:
            await hook()
        return await super().embed_documents(texts)


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def test_an_upload_becomes_a_document_and_its_job_says_so(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job = await upload(database, tenant)
    before = await job_of(database, tenant, job)

    assert await worker_of(database).run_one()

    after, stored = await job_of(database, tenant, job), await document(database, tenant)
    assert (before.state, before.stage, before.attempts, before.started_at) == ("queued", "queued", 0, None)
    assert (after.state, after.stage, after.attempts, after.chunks) == ("done", "done", 1, 1)
    assert (after.error_code, after.unchanged, after.document_id) == (None, None, document_id(tenant, "handbook"))
    assert after.started_at is not None
    assert after.finished_at is not None
    assert stored is not None
    assert (stored.title, stored.tags, stored.chunks) == ("Handbook", ["eu"], 1)
    assert queued(owner) == 0
    assert owner.execute("SELECT payload FROM jobs").fetchall() == [(None,)]


async def test_an_empty_queue_is_no_work(database: Database) -> None:
    assert await worker_of(database).run_one() is False


async def test_uploading_the_same_content_again_is_done_and_unchanged(database: Database, tenant: TenantId) -> None:
    await upload(database, tenant)
    await worker_of(database).run_one()

    again = await upload(database, tenant)
    await worker_of(database).run_one()

    job = await job_of(database, tenant, again)
    assert (job.state, job.chunks, job.unchanged) == ("done", 0, "the same content is stored already")


@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (b"\xff\xfe\xfd", "text/markdown", "invalid_input"),
        (b"a\0b", "text/plain", "invalid_input"),
        (b"", "text/plain", "invalid_input"),
        (b"%PDF-1.7", "application/x-unknown", "unsupported_format"),
    ],
)
async def test_an_unreadable_upload_fails_at_once_with_its_reason(
    database: Database, tenant: TenantId, owner: psycopg.Connection, data: bytes, kind: str, code: str
) -> None:
    job_id = await upload(database, tenant, data, kind=kind)

    await worker_of(database).run_one()

    job = await job_of(database, tenant, job_id)
    assert (job.state, job.error_code, job.attempts) == ("failed", code, 1)
    assert job.error_detail
    assert queued(owner) == 0
    assert await document(database, tenant) is None


async def test_a_failing_model_is_tried_again_later_and_not_for_ever(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    worker = worker_of(database, FakeEmbedder(UpstreamError("the embedder is down")))

    await worker.run_one()
    waiting, too_early = await job_of(database, tenant, job_id), await worker.run_one()
    for _ in range(MAX_ATTEMPTS - 1):
        make_due(owner)
        assert await worker.run_one()

    job = await job_of(database, tenant, job_id)
    assert (waiting.state, waiting.error_code, waiting.attempts, too_early) == ("queued", "upstream_error", 1, False)
    assert (job.state, job.error_code, job.attempts) == ("failed", "upstream_error", MAX_ATTEMPTS)
    assert job.error_detail == f"the embedder is down ({MAX_ATTEMPTS} attempts)"
    assert queued(owner) == 0


async def test_a_job_that_succeeds_at_its_second_attempt_shows_no_error(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    embedder = FakeEmbedder(UpstreamError("down"))
    await worker_of(database, embedder).run_one()

    embedder.error = None
    make_due(owner)
    await worker_of(database, embedder).run_one()

    job = await job_of(database, tenant, job_id)
    assert (job.state, job.attempts, job.chunks, job.error_code, job.error_detail) == ("done", 2, 1, None, None)


async def test_an_unforeseen_error_is_reported_without_the_documents_text(database: Database, tenant: TenantId) -> None:
    job_id = await upload(database, tenant)

    await worker_of(database, FakeEmbedder(ZeroDivisionError("A refund takes five days"))).run_one()

    job = await job_of(database, tenant, job_id)
    assert (job.error_code, job.error_detail) == ("internal", "ZeroDivisionError")


async def test_a_job_whose_workers_die_each_time_is_given_up(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    for _ in range(MAX_ATTEMPTS):
        claimed = await claim(database)
        assert claimed is not None
        async with database.tenant(tenant) as tx:
            await begin_jobs(tx, claimed)
        end_leases(owner)

    await worker_of(database).run_one()

    job = await job_of(database, tenant, job_id)
    assert job.state == "failed"
    assert queued(owner) == 0


async def test_every_ended_job_is_counted_by_its_state(database: Database, tenant: TenantId) -> None:
    metrics = Metrics()
    worker = Worker(database, Pipeline(database, embedders(), parse_directly), metrics, random.Random(0))
    for data in (FIRST, b"a\0b", SECOND, SECOND):
        await upload(database, tenant, data)
        await worker.run_one()

    counted = [metrics.registry.get_sample_value("rag_jobs_total", {"state": state}) for state in ("done", "failed")]

    assert counted == [3, 1]


async def test_a_cancelled_job_is_not_run(database: Database, tenant: TenantId, owner: psycopg.Connection) -> None:
    job_id = await upload(database, tenant)

    cancelled = await cancel(database, tenant, job_id)

    assert cancelled.state == "cancelled"
    assert queued(owner) == 0
    assert await worker_of(database).run_one() is False
    assert await document(database, tenant) is None


async def test_cancelling_in_the_middle_prevents_the_write(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    embedder = HookedEmbedder(lambda: cancel(database, tenant, job_id))

    await worker_of(database, embedder).run_one()

    assert (await job_of(database, tenant, job_id)).state == "cancelled"
    assert await document(database, tenant) is None
    assert queued(owner) == 0


async def test_a_job_that_has_ended_cannot_be_cancelled(database: Database, tenant: TenantId) -> None:
    job_id = await upload(database, tenant)
    await worker_of(database).run_one()

    with pytest.raises(Conflict, match="done"):
        await cancel(database, tenant, job_id)


async def test_an_unknown_job_is_not_found(database: Database, tenant: TenantId) -> None:
    with pytest.raises(NotFound):
        await job_of(database, tenant, JobId(uuid4()))


async def test_another_tenants_job_is_not_found(database: Database, make_tenant: MakeTenant) -> None:
    mine, other = await make_tenant(), await make_tenant()
    job_id = await upload(database, other)

    with pytest.raises(NotFound):
        await job_of(database, mine, job_id)
    with pytest.raises(NotFound):
        await cancel(database, mine, job_id)

    assert (await job_of(database, other, job_id)).state == "queued"


async def test_a_newer_upload_takes_the_place_of_one_that_waits(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    older = await upload(database, tenant, FIRST)
    newer = await upload(database, tenant, SECOND)

    worker = worker_of(database)
    while await worker.run_one():
        pass

    job, stored = await job_of(database, tenant, older), await document(database, tenant)
    assert (job.state, job.stage, job.attempts) == ("cancelled", "superseded", 0)
    assert (await job_of(database, tenant, newer)).state == "done"
    assert stored is not None
    assert "nine" in (stored.text or "")
    assert queued(owner) == 0


async def test_a_newer_upload_takes_the_place_of_one_that_runs(database: Database, tenant: TenantId) -> None:
    older = await upload(database, tenant, FIRST)
    embedder = HookedEmbedder(lambda: upload(database, tenant, SECOND))

    await worker_of(database, embedder).run_one()
    before_the_newer = await document(database, tenant)
    await worker_of(database).run_one()

    stored = await document(database, tenant)
    assert (await job_of(database, tenant, older)).stage == "superseded"
    assert before_the_newer is None
    assert stored is not None
    assert "nine" in (stored.text or "")


async def test_an_upload_for_another_document_supersedes_nothing(database: Database, tenant: TenantId) -> None:
    one, other = await upload(database, tenant, name="one"), await upload(database, tenant, name="other")

    assert [(await job_of(database, tenant, job)).state for job in (one, other)] == ["queued", "queued"]


async def test_a_leased_job_is_left_alone_until_the_lease_ends(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    claimed = await claim(database)
    while_leased = await worker_of(database).run_one()

    end_leases(owner)
    taken_over = await worker_of(database).run_one()

    assert claimed == Claim(tenant, (job_id,), tries=1)
    assert (while_leased, taken_over) == (False, True)
    assert (await job_of(database, tenant, job_id)).state == "done"


async def test_a_lease_can_be_extended_while_the_job_waits_in_the_queue_only(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    claimed = await claim(database)
    assert claimed is not None
    end_leases(owner)

    await extend_leases(database, claimed)
    while_leased = await claim(database)
    await cancel(database, tenant, job_id)
    await extend_leases(database, claimed)

    assert while_leased is None
    assert queued(owner) == 0


async def test_a_worker_that_lost_its_job_to_another_writes_nothing(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    successor = worker_of(database)

    async def lose_the_lease() -> None:
        end_leases(owner)
        assert await successor.run_one()
        owner.execute("UPDATE documents SET title = 'by the successor'")

    await worker_of(database, HookedEmbedder(lose_the_lease)).run_one()

    job, stored = await job_of(database, tenant, job_id), await document(database, tenant)
    assert (job.state, job.attempts) == ("done", 2)
    assert stored is not None
    assert stored.title == "by the successor"


async def test_two_workers_never_run_the_same_job(
    database: Database, make_tenant: MakeTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "BATCH_JOBS", 3)
    tenants = [await make_tenant() for _ in range(4)]
    jobs = [
        (tenant, await upload(database, tenant, f"text {n}".encode(), f"doc-{n}"))
        for tenant in tenants
        for n in range(10)
    ]
    embedder = FakeEmbedder(delay_s=0.002)

    async def drain() -> int:
        worker, ran = worker_of(database, embedder), 0
        while await worker.run_one():
            ran += 1
        return ran

    ran = await asyncio.gather(*(drain() for _ in range(4)))

    ended = [await job_of(database, tenant, job) for tenant, job in jobs]
    assert {(job.state, job.attempts) for job in ended} == {("done", 1)}
    assert len(embedder.embedded) == len(jobs)
    assert sum(ran) == 4 * 4  # of ten jobs: 3, 3, 3, 1
    assert min(ran) > 0


async def test_jobs_run_in_the_order_they_came(
    database: Database, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "BATCH_JOBS", 1)
    for n in range(5):
        await upload(database, tenant, f"number {n}".encode(), f"doc-{n}", "text/plain")
    embedder = FakeEmbedder()
    worker = worker_of(database, embedder)

    while await worker.run_one():
        pass

    assert [text.split()[-1] for text in embedder.embedded] == ["0", "1", "2", "3", "4"]
