"""The worker: claims jobs of every tenant, one at a time, and ends each as done or failed with its reason."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from ingest.pipeline import Pipeline, Result, Source
from rag.errors import CallerError, RagError, StoreError
from rag.store.compaction import compact_if_due
from rag.store.documents import PreparedDocument
from rag.store.engine import Database, TenantTx
from rag.store.jobs import (
    LEASE_S,
    Outcome,
    Upload,
    begin_job,
    claim,
    end_job,
    extend_lease,
    give_back,
    retry_later,
    set_stage,
)
from rag.telemetry import Metrics, log
from rag.values import JobId, TenantId

IDLE_S = 0.5  # between looks at an empty queue
MAX_ATTEMPTS = 4
RETRY_BASE_S = 1.0
_GIVEN_UP = Outcome("failed", error_code="internal", error_detail=f"no worker survived it in {MAX_ATTEMPTS} attempts")


class Worker:
    """Runs jobs until it is cancelled; a job it leaves behind is taken over when its lease ends."""

    def __init__(self, database: Database, pipeline: Pipeline, metrics: Metrics, rng: random.Random) -> None:
        """Take jobs from *database*; *rng* spreads the retries."""
        self._database = database
        self._pipeline = pipeline
        self._metrics = metrics
        self._rng = rng

    async def run(self) -> None:
        """Work for ever."""
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
        """Whether there was a job to run."""
        claimed = await claim(self._database)
        if claimed is None:
            return False
        tenant, job = claimed
        async with self._database.tenant(tenant) as tx:
            begun = await begin_job(tx, job)
        if begun is not None:
            upload, attempt = begun
            try:
                async with self._lease(tenant, job):
                    await self._attempt(tenant, job, upload, attempt=attempt)
            except asyncio.CancelledError:  # a stop is no fault of the job
                async with self._database.tenant(tenant) as tx:
                    await give_back(tx, job)
                raise
        return True

    async def _attempt(self, tenant: TenantId, job: JobId, upload: Upload, *, attempt: int) -> None:
        try:
            # after the last attempt only a worker that died has left it in the queue
            outcome = _GIVEN_UP if attempt > MAX_ATTEMPTS else await self._ingest(tenant, job, upload)
        except CallerError as exc:
            outcome = Outcome("failed", error_code=exc.code, error_detail=exc.detail)
        except Exception as exc:  # noqa: BLE001 - no document may stop the worker, whatever it does to a parser
            log.error("attempt failed", attempt=attempt, exc_info=exc)
            code, detail = (exc.code, exc.detail) if isinstance(exc, RagError) else ("internal", type(exc).__name__)
            if attempt < MAX_ATTEMPTS:
                async with self._database.tenant(tenant) as tx:
                    await retry_later(tx, job, delay_s=self._delay_s(attempt), code=code, detail=detail)
                return
            outcome = Outcome("failed", error_code=code, error_detail=f"{detail} ({attempt} attempts)")
        if outcome is not None:
            async with self._database.tenant(tenant) as tx:
                await end_job(tx, job, outcome)
            self._metrics.jobs.labels(outcome.state).inc()

    async def _ingest(self, tenant: TenantId, job: JobId, upload: Upload) -> Outcome | None:
        """How the job ends; None when it ended together with the write, or was cancelled."""

        async def end_with_write(tx: TenantTx, documents: Sequence[PreparedDocument]) -> bool:
            chunks = sum(len(document.drafts) for document in documents)
            return await end_job(tx, job, Outcome("done", chunks=chunks))

        source = Source(upload.external_id, upload.payload, upload.content_type, _typed(upload.facets))
        async with self._database.tenant(tenant) as tx:
            if not await set_stage(tx, job, "parsing and embedding"):
                return None
        [result] = await self._pipeline.ingest(tenant, [source], before_write=end_with_write)
        if result.state == "done":
            self._metrics.jobs.labels("done").inc()
        async with self._database.tenant(tenant) as tx:
            await compact_if_due(tx)
        return _outcome(result)

    @asynccontextmanager
    async def _lease(self, tenant: TenantId, job: JobId) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(LEASE_S / 3)
                with suppress(StoreError):  # the next beat tries again
                    await extend_lease(self._database, tenant, job)

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _delay_s(self, attempt: int) -> float:
        return self._rng.uniform(0, RETRY_BASE_S * 2**attempt)  # full jitter


def _typed(facets: Mapping[str, object]) -> dict[str, object]:
    """Facets as they came through JSON, in the types of `Facets`."""
    typed = {name: tuple(value) if isinstance(value, list) else value for name, value in facets.items()}
    moments = ((name, typed[name]) for name in ("valid_from", "valid_to") if name in typed)
    return typed | {name: datetime.fromisoformat(str(value)) for name, value in moments}


def _outcome(result: Result) -> Outcome | None:
    match result.state:
        case "unchanged":
            return Outcome("done", chunks=0, unchanged="the same content is stored already")
        case "failed":
            return Outcome("failed", error_code=result.code, error_detail=result.reason)
        case _:
            return None
