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
from ingest.turns import Turns
from ingest.watch import JobWatch
from rag.errors import CallerError, IndexFull, IndexMismatch, RagError, StoreError, StoreUnavailable
from rag.store.answers import drop_stale_answers
from rag.store.compaction import compact_if_due
from rag.store.engine import Database, TenantTx
from rag.store.jobs import Outcome, end_job, prune_jobs
from rag.store.neighbours import graph_if_large
from rag.store.queue import LEASE_S, Begun, Claim, begin_jobs, claim, extend_leases, give_back, put_off, retry_later
from rag.store.upkeep import claim_upkeep, end_upkeep
from rag.store.writing import PreparedDocument
from rag.telemetry import Metrics, log
from rag.values import TenantId

LANES = 2  # batches in hand: one is parsed and written while the other is embedded
IDLE_S = 0.5  # between looks at an empty queue
MAX_ATTEMPTS = 4
MAX_TRIES = 20  # claims that ended in a lost database or while a job waited to be alone: no fault of it, most likely
RETRY_BASE_S = 1.0
MISMATCH_S = 60.0  # between looks at an index that this worker cannot write to
PRUNE_EVERY_S = 3600.0  # what ends in an hour is soon deleted
UPKEEP_EVERY_S = 5.0  # between looks for tenants where much was deleted: nothing there is urgent


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
        lease_s: float = LEASE_S,
    ) -> None:
        """Take jobs from *database*, those of one tenant or of all; *rng* spreads the retries.

        A worker that is silent for *lease_s* has lost its jobs to another.
        """
        self._database = database
        self._pipeline = pipeline
        self._metrics = metrics
        self._rng = rng
        self._only = only
        self._lease_s = lease_s
        self._turns = Turns()
        self._prune_at: dict[TenantId, float] = {}
        self._upkeep_at = 0.0

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as lanes:
            for _ in range(LANES):
                lanes.create_task(self._lane())

    async def _lane(self) -> None:
        while not _told_to_stop():
            try:
                await self._prune()
                await self._keep_up()
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
        await self._turns.open()
        claimed = await claim(self._database, self._only, lease_s=self._lease_s)
        if claimed is None:
            return False
        self._prune_at.setdefault(claimed.tenant_id, 0.0)
        begun: list[Begun] = []
        try:
            if _told_to_stop():
                raise asyncio.CancelledError  # noqa: TRY301 - the handler below puts back what was claimed
            # a job that was tried before may be what ended its worker: then it ends nothing else with this one
            turn = self._turns.beside() if claimed.is_first else self._turns.alone()
            async with self._leases(claimed), turn:
                async with self._database.tenant(claimed.tenant_id) as tx:
                    begun = await begin_jobs(tx, claimed)
                await self._attempt(claimed, begun)
        except StoreUnavailable as exc:
            await self._put_back(claimed, begun, exc)
            return True
        except asyncio.CancelledError:  # a stop is no fault of the jobs
            with suppress(StoreError):  # their leases end in any case
                async with self._database.tenant(claimed.tenant_id) as tx:
                    await give_back(tx, claimed, begun)
            raise
        if begun:
            await self._maintain(claimed.tenant_id)
        return True

    async def _attempt(self, claimed: Claim, begun: Sequence[Begun]) -> None:
        # after the last attempt only a worker that died has left a job in the queue
        lost = [job for job in begun if job.attempt > MAX_ATTEMPTS or claimed.tries > MAX_TRIES]
        await self._end(claimed.tenant_id, [(job, _given_up(job, claimed)) for job in lost])
        jobs = [job for job in begun if job not in lost]
        try:
            if jobs:
                await self._ingest(claimed.tenant_id, jobs)
        except StoreUnavailable:
            raise
        except (IndexMismatch, IndexFull) as exc:  # no fault of the jobs: what helps one of them helps all
            log.warning("index does not fit", jobs=len(jobs), detail=exc.detail)
            delay_s = MISMATCH_S * self._rng.uniform(0.75, 1.25)
            async with self._database.tenant(claimed.tenant_id) as tx:
                await put_off(tx, jobs, delay_s=delay_s, code=exc.code, detail=exc.detail)
        except Exception as exc:  # noqa: BLE001 - no document may stop the worker, whatever it does to a parser
            log.error("attempt failed", jobs=len(jobs), exc_info=exc)
            for job in jobs:
                await self._again(claimed.tenant_id, job, exc, alone=len(jobs) == 1)

    async def _again(self, tenant: TenantId, job: Begun, exc: Exception, *, alone: bool) -> None:
        """Another attempt later, or the end of a job that had enough of them, or whose fault it is."""
        code, detail = _cause(exc)
        if job.attempt < MAX_ATTEMPTS and not (alone and isinstance(exc, CallerError)):
            async with self._database.tenant(tenant) as tx:
                await retry_later(tx, job, delay_s=self._delay_s(job.attempt), code=code, detail=detail)
            return
        tried = "" if job.attempt == 1 else f" ({job.attempt} attempts)"
        await self._end(tenant, [(job, Outcome("failed", error_code=code, error_detail=f"{detail}{tried}"))])

    async def _put_back(self, claimed: Claim, begun: Sequence[Begun], exc: StoreUnavailable) -> None:
        """Wait until the database is there again, and let the jobs wait for another attempt; this one counts not."""
        log.warning("database lost", jobs=len(begun), detail=exc.detail)
        delay_s = self._delay_s(min(claimed.tries, MAX_ATTEMPTS))
        while True:
            try:
                async with self._database.tenant(claimed.tenant_id) as tx:
                    for job in begun:
                        before = job.attempt - 1
                        await retry_later(tx, job, delay_s=delay_s, code=exc.code, detail=exc.detail, counted=before)
                    if not begun:
                        await give_back(tx, claimed, begun)
            except StoreUnavailable:
                await asyncio.sleep(IDLE_S)
            else:
                return

    async def _ingest(self, tenant: TenantId, jobs: Sequence[Begun]) -> None:
        by_name = {job.upload.external_id: job for job in jobs}

        async def end_with_write(tx: TenantTx, documents: Sequence[PreparedDocument]) -> AbstractSet[str]:
            """The documents whose jobs nobody has ended; they end here, in the transaction that writes."""
            written = {d.external_id: _done(d) for d in documents}
            return {name for name in by_name if name in written and await _end(tx, by_name[name], written[name])}

        watch = JobWatch(self._database, tenant, by_name)
        sources = [_source(job) for job in jobs]
        results = await self._pipeline.ingest(tenant, sources, before_write=end_with_write, watch=watch)
        await self._end(tenant, [(by_name[r.external_id], outcome) for r in results if (outcome := _outcome(r))])
        if done := sum(result.state == "done" for result in results):
            self._metrics.jobs.labels("done").inc(done)

    async def keep_one_up(self) -> bool:
        """Whether there was a tenant to look after; one where that fails waits for another look."""
        asked = await claim_upkeep(self._database, self._only)
        if asked and await self._maintain(asked.tenant_id):
            await end_upkeep(self._database, asked)
        return asked is not None

    async def _keep_up(self) -> None:
        """Look after the next tenant where something was deleted, every UPKEEP_EVERY_S."""
        now = time.monotonic()
        if self._upkeep_at <= now:
            self._upkeep_at = now + UPKEEP_EVERY_S
            if await self.keep_one_up():
                self._upkeep_at = now

    async def _maintain(self, tenant: TenantId) -> bool:
        """Whether the index is tidy now; what fails here is tried after the next batch, and no fault of a job."""
        try:
            async with self._database.tenant(tenant) as tx:
                await drop_stale_answers(tx)
            async with self._database.tenant(tenant) as tx:
                await compact_if_due(tx)
            await graph_if_large(self._database, tenant)
        except StoreError as exc:
            log.warning("index not tidied", detail=exc.detail)
            return False
        return True

    async def _end(self, tenant: TenantId, outcomes: Sequence[tuple[Begun, Outcome]]) -> None:
        if not outcomes:
            return
        async with self._database.tenant(tenant) as tx:
            ended = [outcome.state for job, outcome in outcomes if await _end(tx, job, outcome)]
        for state in ended:
            self._metrics.jobs.labels(state).inc()

    @asynccontextmanager
    async def _leases(self, claimed: Claim) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(self._lease_s / 3)
                with suppress(StoreError):  # the next beat tries again
                    await extend_leases(self._database, claimed, lease_s=self._lease_s)

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])  # not `await task`: who stops us meanwhile must not be taken for the beat's end

    async def _prune(self) -> None:
        """Delete old jobs of every tenant that had work here, of each at most once in PRUNE_EVERY_S."""
        now = time.monotonic()
        for tenant in [tenant for tenant, due_at in self._prune_at.items() if due_at <= now]:
            self._prune_at[tenant], more = now + PRUNE_EVERY_S, True
            while more:
                async with self._database.tenant(tenant) as tx:
                    more = await prune_jobs(tx)

    def _delay_s(self, attempt: int) -> float:
        return self._rng.uniform(0, RETRY_BASE_S * 2**attempt)  # full jitter


def _told_to_stop() -> bool:
    """Whether this task was cancelled: before Python 3.12 `wait_for`, which the pool uses, may swallow the news."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _end(tx: TenantTx, job: Begun, outcome: Outcome) -> bool:
    return await end_job(tx, job.job_id, outcome, attempt=job.attempt)


def _given_up(job: Begun, claimed: Claim) -> Outcome:
    if job.attempt > MAX_ATTEMPTS:
        return Outcome("failed", error_code=RagError.code, error_detail=f"no worker survived it, {MAX_ATTEMPTS} times")
    detail = f"the database was lost each time, {claimed.tries - 1} times; upload it again"
    return Outcome("failed", error_code=StoreUnavailable.code, error_detail=detail)


def _cause(exc: Exception) -> tuple[str, str]:
    """Code and sentence; of what nobody foresaw only its kind, since its text may be the document's."""
    return (exc.code, exc.detail) if isinstance(exc, RagError) else (RagError.code, type(exc).__name__)


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
