from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import psycopg
import pytest

from ingest.blocks import Parsed
from ingest.pipeline import Pipeline
from ingest.worker import Worker
from rag.errors import InvalidInput
from rag.inference.onnx import OnnxEmbedder
from rag.protocols import Embedder
from rag.store.engine import Database
from rag.store.jobs import Job
from rag.telemetry import Metrics
from rag.values import JobId, TenantId
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.embedding import GatedEmbedder, PickyEmbedder, until
from tests.integration.reading import Legs
from tests.integration.uploads import FIRST, cancel, document, job_of, queued, upload, worker_of

LONG = b"\n\n".join(b"# Part %d\n\nA zebra of number %d eats grass all day and sleeps." % (n, n) for n in range(80))


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def at_stage(database: Database, tenant: TenantId, job: JobId, stage: str) -> Job:
    async with asyncio.timeout(20):
        while (found := await job_of(database, tenant, job)).stage != stage:
            await asyncio.sleep(0.01)
    return found


async def test_a_job_goes_through_its_stages_and_counts_its_chunks(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    parsing, embedder = asyncio.Event(), GatedEmbedder()

    async def parse_when_told(data: bytes, name: str, content_type: str | None = None) -> Parsed:
        await parsing.wait()
        return await parse_directly(data, name, content_type)

    job_id = await upload(database, tenant, LONG)
    queued_ = await job_of(database, tenant, job_id)
    pipeline = Pipeline(database, embedders(embedder), parse_when_told)
    async with working(Worker(database, pipeline, Metrics(), random.Random(0))):
        at_parsing = await at_stage(database, tenant, job_id, "parsing")
        parsing.set()
        await until(embedder.reached.is_set)
        at_embedding = await at_stage(database, tenant, job_id, "embedding")
        embedder.gate.release()
        await asyncio.sleep(0.6)  # over the time between two looks
        embedder.gate.release()
        await until(lambda: owner.execute("SELECT 1 FROM jobs WHERE chunks_done = 64").fetchall())
        half_way = await job_of(database, tenant, job_id)
        with owner.transaction():
            owner.execute("LOCK TABLE embeddings IN SHARE MODE")  # holds the write up
            embedder.gate.release()
            at_writing = await at_stage(database, tenant, job_id, "writing")
        done = await at_stage(database, tenant, job_id, "done")

    assert (queued_.stage, queued_.state, queued_.chunks_total) == ("queued", "queued", None)
    assert (at_parsing.state, at_parsing.chunks_done, at_parsing.chunks_total) == ("running", 0, None)
    assert (at_embedding.chunks_done, at_embedding.chunks_total, at_embedding.eta_s) == (0, 80, None)
    assert half_way.chunks_per_s is not None
    assert half_way.eta_s == pytest.approx(16 / half_way.chunks_per_s)
    assert (at_writing.state, at_writing.chunks_done, at_writing.eta_s) == ("running", 80, None)
    assert (done.state, done.chunks, done.chunks_done, done.chunks_total) == ("done", 80, 80, 80)


async def test_a_waiting_job_counts_the_jobs_before_it_and_not_those_that_ended(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    first = await upload(database, tenant, b"one", "one")
    await upload(database, tenant, b"two", "two")
    await upload(database, tenant, b"two again", "two")
    await cancel(database, tenant, await upload(database, tenant, b"three", "three"))

    last = await upload(database, tenant, b"last", "last")

    assert [(await job_of(database, tenant, job)).ahead for job in (first, last)] == [0, 2]


@pytest.mark.quiet
async def test_cancelling_in_the_middle_of_a_large_document_frees_its_lane_at_once(
    database: Database, tenant: TenantId, embedder: OnnxEmbedder
) -> None:
    words = "The boiler of the house is serviced each October by the person who is named in the contract. "
    large = "\n\n".join(f"# Part {n}\n\n" + f"Of part {n}: {words}" * 6 for n in range(600)).encode()
    job_id = await upload(database, tenant, large)
    running = asyncio.create_task(worker_of(database, embedder).run_one())
    await at_stage(database, tenant, job_id, "embedding")
    begun_at = time.monotonic()
    one_slice = embedder.embed_documents([words * 6] * 32)
    await one_slice
    slice_s = time.monotonic() - begun_at  # with the job beside it: twice what one takes alone

    await cancel(database, tenant, job_id)
    cancelled_at = time.monotonic()
    await running
    took_s = time.monotonic() - cancelled_at

    cancelled = await job_of(database, tenant, job_id)
    assert (cancelled.state, cancelled.chunks) == ("cancelled", None)
    assert cancelled.chunks_done < (cancelled.chunks_total or 0) / 2
    assert took_s < 1.0 + slice_s
    assert await document(database, tenant) is None


async def test_a_cancelled_document_of_a_batch_is_embedded_no_further_while_the_others_are(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    large = await upload(database, tenant, LONG, "large")
    small = await upload(database, tenant, b"A walrus.", "small")
    embedder = GatedEmbedder()
    running = asyncio.create_task(worker_of(database, embedder).run_one())
    await until(embedder.reached.is_set)

    await cancel(database, tenant, large)
    await asyncio.sleep(0.6)  # over the time between two looks
    for _ in range(5):
        embedder.gate.release()
    await running

    assert [(await job_of(database, tenant, job)).state for job in (large, small)] == ["cancelled", "done"]
    assert sum("zebra" in text for text in embedder.embedded) <= 32


@pytest.mark.parametrize(
    ("embedder", "reason"),
    [
        (PickyEmbedder("unspeakable", InvalidInput("no token of it is known")), "no token of it is known"),
        (PickyEmbedder("unspeakable", number=0.0), "its vector is zero or not finite"),
        (PickyEmbedder("unspeakable", number=np.nan), "its vector is zero or not finite"),
        (PickyEmbedder("unspeakable", number=np.inf), "its vector is zero or not finite"),
    ],
    ids=["refused", "zero", "not a number", "infinite"],
)
async def test_a_chunk_that_the_embedder_refuses_is_found_by_its_words_and_said_to_be_quarantined(
    database: Database, tenant: TenantId, legs: Legs, embedder: Embedder, reason: str
) -> None:
    data = b"# One\n\nA zebra eats grass.\n\n# Two\n\nThis is unspeakable.\n\n# Three\n\nA walrus swims."
    job_id = await upload(database, tenant, data)

    await worker_of(database, embedder).run_one()

    job, stored = await job_of(database, tenant, job_id), await document(database, tenant)
    assert stored is not None
    assert stored.text is not None
    [quarantined] = stored.quarantined
    at = slice(quarantined["start"], quarantined["end"])
    assert (job.state, job.chunks, stored.chunks, len(job.warnings)) == ("done", 2, 2, 1)
    assert reason in job.warnings[0]
    assert quarantined["reason"] == reason
    assert "unspeakable" in stored.text[at]
    dense, lexical = await legs.find(tenant, "unspeakable")
    assert len(lexical) == 1
    assert not lexical & dense
    assert len(dense) == 2


@pytest.mark.parametrize("error", [InvalidInput("no token of it is known"), None], ids=["refused", "zero"])
async def test_a_document_whose_every_chunk_is_refused_fails_and_leaves_the_old_version(
    database: Database, tenant: TenantId, owner: psycopg.Connection, error: Exception | None
) -> None:
    await upload(database, tenant, FIRST)
    await worker_of(database, FakeEmbedder()).run_one()
    before = await document(database, tenant)
    job_id = await upload(database, tenant, b"# One\n\nunspeakable\n\n# Two\n\nunspeakable too")

    await worker_of(database, PickyEmbedder("unspeakable", error)).run_one()

    job = await job_of(database, tenant, job_id)
    assert (job.state, job.error_code, job.attempts) == ("failed", "invalid_input", 1)
    assert "the embedder refused every chunk" in (job.error_detail or "")
    assert await document(database, tenant) == before
    assert queued(owner) == 0
