from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import ingest.worker as worker_module
from ingest.pipeline import Pipeline
from ingest.watch import JobWatch
from ingest.worker import MAX_ATTEMPTS, MAX_TRIES, Worker
from rag.errors import StoreUnavailable, UpstreamError
from rag.store.engine import Database
from rag.store.jobs import Outcome, end_job, newest_job
from rag.store.queue import Claim, Progress, begin_jobs, claim, give_back, retry_later, show_progress
from rag.telemetry import Metrics
from rag.values import JobId, TenantId
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.embedding import GatedEmbedder, PickyEmbedder, until
from tests.integration.uploads import cancel, document, end_leases, job_of, make_due, queued, upload, worker_of


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def put_many(database: Database, tenant: TenantId, count: int) -> list[JobId]:
    return [await upload(database, tenant, f"This is text {n}.".encode(), f"doc-{n:02}") for n in range(count)]


async def states(database: Database, tenant: TenantId, jobs: list[JobId]) -> list[str]:
    return [(await job_of(database, tenant, job)).state for job in jobs]


async def test_one_document_that_fails_each_time_is_tried_alone_and_holds_up_no_other_of_its_batch(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    jobs = await put_many(database, tenant, 63)
    bad = await upload(database, tenant, b"This is unspeakable.", "bad")
    embedder = PickyEmbedder("unspeakable", UpstreamError("the embedder is down"))
    worker = worker_of(database, embedder)

    while queued(owner):
        make_due(owner)
        await worker.run_one()

    failed = await job_of(database, tenant, bad)
    assert set(await states(database, tenant, jobs)) == {"done"}
    assert (failed.state, failed.error_code, failed.attempts) == ("failed", "upstream_error", MAX_ATTEMPTS)
    assert failed.error_detail == f"the embedder is down ({MAX_ATTEMPTS} attempts)"
    assert embedder.refused[1:] == [1] * (MAX_ATTEMPTS - 1)


async def test_jobs_of_a_worker_that_died_are_taken_over_one_by_one(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    jobs = await put_many(database, tenant, 5)
    died_with = await claim(database)
    end_leases(owner)

    taken = [await claim(database) for _ in range(6)]

    assert died_with is not None
    assert set(died_with.job_ids) == set(jobs)
    assert [(len(one.job_ids), one.tries) for one in taken if one] == [(1, 2)] * 5
    assert taken[5] is None


async def test_a_job_that_was_tried_before_runs_when_nothing_else_is_in_its_worker(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await upload(database, tenant, b"This was tried.", "tried")
    await claim(database)
    end_leases(owner)
    owner.execute("UPDATE job_queue SET run_at = now() + interval '1 hour'")
    await upload(database, tenant, b"This is slow.", "slow")
    embedder = GatedEmbedder()
    worker = worker_of(database, embedder)
    slow = asyncio.create_task(worker.run_one())
    await until(embedder.reached.is_set)
    make_due(owner)
    await upload(database, tenant, b"This is new.", "new")
    owner.execute("UPDATE job_queue SET run_at = now() WHERE tries = 0")

    tried = asyncio.create_task(worker.run_one())
    await until(lambda: owner.execute("SELECT 1 FROM job_queue WHERE tries = 2").fetchall())
    new = asyncio.create_task(worker.run_one())
    await asyncio.sleep(0.2)
    beside_the_slow_one = await begun(owner)
    embedder.gate.release()
    await slow
    await until(lambda: owner.execute("SELECT 1 FROM jobs WHERE external_id = 'tried' AND attempts = 1").fetchall())
    await asyncio.sleep(0.2)
    beside_the_tried_one = await begun(owner)
    for _ in range(2):
        embedder.gate.release()
    await asyncio.gather(tried, new)

    assert beside_the_slow_one == ["slow"]
    assert beside_the_tried_one == ["tried"]
    assert queued(owner) == 0


async def begun(owner: psycopg.Connection) -> list[str]:
    rows = owner.execute("SELECT external_id FROM jobs WHERE state = 'running' ORDER BY 1").fetchall()
    return [row[0] for row in rows]


async def test_a_worker_that_lost_its_jobs_to_another_changes_nothing_any_more(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    late = await claim(database)
    assert late is not None
    async with database.tenant(tenant) as tx:
        [stale] = await begin_jobs(tx, late)
    end_leases(owner)
    successor = await claim(database)
    assert successor is not None
    async with database.tenant(tenant) as tx:
        await begin_jobs(tx, successor)
    before = owner.execute("SELECT j, q FROM jobs j JOIN job_queue q USING (job_id)").fetchall()

    async with database.tenant(tenant) as tx:
        seen = await show_progress(tx, [(stale, Progress("writing", 3, 3))])
        ended = await end_job(tx, job_id, Outcome("failed"), attempt=stale.attempt)
        await retry_later(tx, stale, delay_s=0, code="internal", detail="")
        await give_back(tx, late, [stale])

    assert (seen, ended) == (set(), False)
    assert owner.execute("SELECT j, q FROM jobs j JOIN job_queue q USING (job_id)").fetchall() == before


async def test_a_claim_that_was_taken_over_begins_nothing_and_takes_nothing_away(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    late = await claim(database)
    end_leases(owner)
    successor = await claim(database)
    assert late is not None
    assert successor is not None
    async with database.tenant(tenant) as tx:
        [begun] = await begin_jobs(tx, successor)

    async with database.tenant(tenant) as tx:
        begun_late = await begin_jobs(tx, late)
    async with database.tenant(tenant) as tx:
        goes_on = await show_progress(tx, [(begun, Progress("embedding", 1, 3))])

    assert begun_late == []
    assert goes_on == {job_id}
    assert queued(owner) == 1


async def test_a_late_claim_that_waits_for_the_one_that_took_over_begins_nothing(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await upload(database, tenant)
    late = await claim(database)
    assert late is not None

    async def begin_late() -> list[JobId]:
        async with database.tenant(tenant) as tx:
            return [job.job_id for job in await begin_jobs(tx, late)]

    with owner.transaction():  # another's claim and begin, before they are committed
        owner.execute("UPDATE job_queue SET tries = tries + 1")
        owner.execute("UPDATE jobs SET state = 'running', attempts = attempts + 1")
        beginning = asyncio.create_task(begin_late())
        await asyncio.sleep(0.3)

    assert await beginning == []
    assert queued(owner) == 1


async def test_what_is_cancelled_after_the_last_look_is_not_written(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def see_nothing(_: JobWatch) -> None:
        pass

    monkeypatch.setattr(JobWatch, "_look", see_nothing)
    job_id, other = [await upload(database, tenant, name=name) for name in ("cancelled", "other")]
    embedder = GatedEmbedder()
    running = asyncio.create_task(worker_of(database, embedder).run_one())
    await until(embedder.reached.is_set)

    await cancel(database, tenant, job_id)
    embedder.gate.release()
    await running

    assert await states(database, tenant, [job_id, other]) == ["cancelled", "done"]
    assert await document(database, tenant, "cancelled") is None
    assert await document(database, tenant, "other") is not None


async def test_a_lost_database_is_no_attempt_and_the_job_says_why_it_waits(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)

    for _ in range(MAX_ATTEMPTS + 1):
        make_due(owner)
        await worker_of(database, FakeEmbedder(StoreUnavailable("the database is away"))).run_one()
    waiting = await job_of(database, tenant, job_id)
    make_due(owner)
    await worker_of(database).run_one()

    done = await job_of(database, tenant, job_id)
    assert (waiting.state, waiting.attempts, waiting.error_code) == ("queued", 0, "store_unavailable")
    assert (done.state, done.attempts, done.error_code) == ("done", 1, None)


async def test_a_job_that_loses_the_database_again_and_again_is_given_up_in_the_end(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    job_id = await upload(database, tenant)
    owner.execute("UPDATE job_queue SET tries = %s", (MAX_TRIES,))

    await worker_of(database).run_one()

    job = await job_of(database, tenant, job_id)
    assert (job.state, job.error_code) == ("failed", "store_unavailable")
    assert job.error_detail == f"the database was lost each time, {MAX_TRIES} times; upload it again"
    assert queued(owner) == 0


async def test_a_worker_that_is_stopped_gives_its_jobs_back_as_if_untried(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    jobs = await put_many(database, tenant, 3)
    embedder = GatedEmbedder()
    running = asyncio.create_task(worker_of(database, embedder).run())
    await until(embedder.reached.is_set)

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    assert set(await states(database, tenant, jobs)) == {"queued"}
    assert {(await job_of(database, tenant, job)).attempts for job in jobs} == {0}
    again = await claim(database)
    assert again is not None
    assert (set(again.job_ids), again.tries) == (set(jobs), 1)


async def test_a_worker_stops_even_when_its_database_is_away(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upload(database, tenant)
    embedder = GatedEmbedder()
    running = asyncio.create_task(worker_of(database, embedder).run())
    await until(embedder.reached.is_set)

    def away(*_: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(database, "tenant", away)
    running.cancel()
    ended, _ = await asyncio.wait([running], timeout=5)

    assert ended == {running}
    assert running.cancelled()


async def test_of_many_uploads_at_once_the_last_one_is_stored(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    names = ("one", "two", "three")
    texts: dict[JobId, str] = {}

    async def put(name: str, n: int) -> None:
        await asyncio.sleep(n % 7 * 0.02)
        text = f"The text {n} of {name}."
        texts[await upload(database, tenant, text.encode(), name)] = text

    workers = [
        asyncio.create_task(
            Worker(
                database,
                Pipeline(database, embedders(FakeEmbedder(delay_s=0.005)), parse_directly),
                Metrics(),
                random.Random(n),
            ).run()
        )
        for n in range(2)
    ]
    await asyncio.gather(*(put(name, n) for n in range(40) for name in names))
    await until(lambda: not queued(owner))
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)

    for name in names:
        async with database.tenant(tenant) as tx:
            last = await newest_job(tx, name)
        stored = await document(database, tenant, name)
        assert last is not None
        assert stored is not None
        assert (last.state, stored.text) == ("done", texts[last.job_id])
    assert {job.state for job in [await job_of(database, tenant, job) for job in texts]} <= {"done", "cancelled"}


async def test_uploads_of_the_same_documents_in_any_order_never_wait_for_each_other_in_a_circle(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    names = [f"doc-{n}" for n in range(12)]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = owner.execute(deadlocks).fetchone()

    async def put(seed: int) -> None:
        for name in random.Random(seed).sample(names, len(names)):
            await upload(database, tenant, f"{seed} {name}".encode(), name)

    workers = [asyncio.create_task(worker_of(database, FakeEmbedder(delay_s=0.001)).run()) for _ in range(2)]
    await asyncio.gather(*(put(seed) for seed in range(4)))
    await until(lambda: not queued(owner))
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)

    assert owner.execute(deadlocks).fetchone() == before


async def test_a_worker_stops_though_the_news_is_lost_while_it_claims(
    database: Database, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await upload(database, tenant)

    async def deaf(*args: Any, **options: Any) -> Claim | None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return await claim(*args, **options)

    monkeypatch.setattr(worker_module, "claim", deaf)
    running = asyncio.create_task(worker_of(database).run())
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.wait([running], timeout=30)

    assert running.cancelled()
    assert ((await job_of(database, tenant, job)).state, (await job_of(database, tenant, job)).attempts) == (
        "queued",
        0,
    )
