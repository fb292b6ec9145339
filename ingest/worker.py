"""The worker: claims batches of jobs of every tenant, and ends each job as done or failed with its reason."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from ingest.pipeline import Pipeline, Result, Source
from rag.errors import CallerError, RagError, StoreError
from rag.store.compaction import compact_if_due
from rag.store.engine import Database, TenantTx
from rag.store.jobs import Outcome, end_job
from rag.store.neighbours import graph_if_large
from rag.store.queue import (
    LEASE_S,
    Begun,
    Progress,
    begin_jobs,
    claim,
    extend_leases,
    give_back,
    retry_later,
    show_progress,
)
from rag.store.writing import PreparedDocument
from rag.telemetry import Metrics, log
from rag.values import JobId, TenantId

LANES = 2  # batches in hand: one is parsed and written while the other is embedded
IDLE_S = 0.5  # between looks at an empty queue
WATCH_S = 1.0  # between two looks at who still wants a document
MAX_ATTEMPTS = 4
RETRY_BASE_S = 1.0
_GIVEN_UP = Outcome("failed", error_code="internal", error_detail=f"no worker survived it in {MAX_ATTEMPTS} attempts")


class Worker:
    """Runs jobs until it is cancelled; a job it leaves behind is taken over when its lease ends."""

    def __init__(
        self,
        database: Database,
        pipeline: Pipeline,
        metrics: Metrics,
        rng: random.Random,
        *,
        only: TenantId | None = None,
    ) -> None:
        """Take jobs from *database*, those of one tenant or of all; *rng* spreads the retries."""
        self._database = database
        self._pipeline = pipeline
        self._metrics = metrics
        self._rng = rng
        self._only = only

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as lanes:
            for _ in range(LANES):
                lanes.create_task(self._lane())

    async def _lane(self) -> None:
        while True:
            try:
                if not await self.run_one():
                    await asyncio.sleep(IDLE_S)
            except StoreError as exc:
                log.warning("queue out of reach", detail=exc.detail)
                await asyncio.sleep(IDLE_S)
            except Exception as exc:  # noqa: BLE001 - nobody would start this loop again
                log.error("worker stumbled", exc_info=exc)
                await asyncio.sleep(IDLE_S)

    async def run_one(self) -> bool:
        """Whether there was a batch to run."""
        claimed = await claim(self._database, self._only)
        if claimed is None:
            return False
        tenant, ids = claimed
        async with self._database.tenant(tenant) as tx:
            begun = await begin_jobs(tx, ids)
        if begun:
            ids = [job.job_id for job in begun]
            try:
                async with self._leases(tenant, ids):
                    await self._attempt(tenant, begun)
            except asyncio.CancelledError:  # a stop is no fault of the jobs
                async with self._database.tenant(tenant) as tx:
                    await give_back(tx, ids)
                raise
        return True

    async def _attempt(self, tenant: TenantId, begun: Sequence[Begun]) -> None:
        # after the last attempt only a worker that died has left a job in the queue
        lost = [job for job in begun if job.attempt > MAX_ATTEMPTS]
        await self._end(tenant, {job.job_id: _GIVEN_UP for job in lost})
        jobs = [job for job in begun if job.attempt <= MAX_ATTEMPTS]
        try:
            if jobs:
                await self._ingest(tenant, jobs)
        except Exception as exc:  # noqa: BLE001 - no document may stop the worker, whatever it does to a parser
            log.error("attempt failed", jobs=len(jobs), exc_info=exc)
            for job in jobs:
                await self._again(tenant, job, exc)

    async def _again(self, tenant: TenantId, job: Begun, exc: Exception) -> None:
        """Another attempt later, or the end of a job that had enough of them, or whose fault it is."""
        code, detail = (exc.code, exc.detail) if isinstance(exc, RagError) else ("internal", type(exc).__name__)
        if job.attempt < MAX_ATTEMPTS and not isinstance(exc, CallerError):
            async with self._database.tenant(tenant) as tx:
                await retry_later(tx, job.job_id, delay_s=self._delay_s(job.attempt), code=code, detail=detail)
            return
        tried = "" if job.attempt == 1 else f" ({job.attempt} attempts)"
        await self._end(tenant, {job.job_id: Outcome("failed", error_code=code, error_detail=f"{detail}{tried}")})

    async def _ingest(self, tenant: TenantId, jobs: Sequence[Begun]) -> None:
        ids = {job.upload.external_id: job.job_id for job in jobs}

        async def end_with_write(tx: TenantTx, documents: Sequence[PreparedDocument]) -> AbstractSet[str]:
            """The documents whose jobs nobody has ended; they end here, in the transaction that writes."""
            ended = {d.external_id: await end_job(tx, ids[d.external_id], _done(d)) for d in documents}
            return {name for name, was_open in ended.items() if was_open}

        watch = _Watch(self._database, tenant, ids)
        sources = [_source(job) for job in jobs]
        results = await self._pipeline.ingest(tenant, sources, before_write=end_with_write, watch=watch)
        outcomes = {ids[result.external_id]: outcome for result in results if (outcome := _outcome(result))}
        await self._end(tenant, outcomes)
        if done := sum(result.state == "done" for result in results):
            self._metrics.jobs.labels("done").inc(done)
        async with self._database.tenant(tenant) as tx:
            await compact_if_due(tx)
        await graph_if_large(self._database, tenant)

    async def _end(self, tenant: TenantId, outcomes: Mapping[JobId, Outcome]) -> None:
        if not outcomes:
            return
        async with self._database.tenant(tenant) as tx:
            for job, outcome in outcomes.items():
                await end_job(tx, job, outcome)
        for outcome in outcomes.values():
            self._metrics.jobs.labels(outcome.state).inc()

    @asynccontextmanager
    async def _leases(self, tenant: TenantId, jobs: Sequence[JobId]) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(LEASE_S / 3)
                with suppress(StoreError):  # the next beat tries again
                    await extend_leases(self._database, tenant, jobs)

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _delay_s(self, attempt: int) -> float:
        return self._rng.uniform(0, RETRY_BASE_S * 2**attempt)  # full jitter


class _Watch:
    """Shows how far jobs are, and learns which of them were cancelled: now and then, since most take no second."""

    def __init__(self, database: Database, tenant: TenantId, ids: Mapping[str, JobId]) -> None:
        self._database = database
        self._tenant = tenant
        self._ids = ids
        self._next_look = 0.0
        self._progress: dict[str, Progress] = {}
        self._gone: set[str] = set()

    async def __call__(self, progress: Mapping[str, Progress]) -> AbstractSet[str]:
        """Those of the documents that are still wanted."""
        self._progress |= progress
        if time.monotonic() >= self._next_look:
            await self._look()
            self._next_look = time.monotonic() + WATCH_S
        return progress.keys() - self._gone

    async def _look(self) -> None:
        shown = {self._ids[name]: at for name, at in self._progress.items() if name not in self._gone}
        async with self._database.tenant(self._tenant) as tx:
            running = await show_progress(tx, shown)
        self._gone |= {name for name in self._progress if self._ids[name] not in running}
        self._progress.clear()


def _source(job: Begun) -> Source:
    upload = job.upload
    return Source(
        upload.external_id,
        upload.payload,
        upload.content_type,
        _typed(upload.facets),
        folder=upload.folder,
        keep_history=upload.keep_history,
    )


def _typed(facets: Mapping[str, object]) -> dict[str, object]:
    """Facets as they came through JSON, in the types of `Facets`."""
    typed = {name: tuple(value) if isinstance(value, list) else value for name, value in facets.items()}
    moments = ((name, typed[name]) for name in ("valid_from", "valid_to") if name in typed)
    return typed | {name: datetime.fromisoformat(str(value)) for name, value in moments}


def _done(document: PreparedDocument) -> Outcome:
    return Outcome("done", chunks=document.chunk_count, warnings=document.warnings)


def _outcome(result: Result) -> Outcome | None:
    """How a job ends that has not ended with the write, and was not cancelled."""
    match result.state:
        case "unchanged":
            return Outcome("done", chunks=0, unchanged="the same content is stored already")
        case "failed":
            return Outcome("failed", error_code=result.code, error_detail=result.reason)
        case _:
            return None
