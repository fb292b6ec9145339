"""Ingestion jobs as their tenant sees them: asked for, watched, cancelled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from rag.errors import Conflict, NotFound
from rag.store.engine import TenantTx
from rag.values import DocumentId, JobId, RunId, document_id

KEEP_DAYS = 30  # longer than anybody asks how an upload went, or repeats a request under its idempotency key
PRUNE_ROWS = 10_000  # in one transaction: a fraction of a second


@dataclass(frozen=True, slots=True)
class Upload:
    """A document as a caller sent it: content, its type, and what was said about it."""

    external_id: str
    content_type: str | None
    facets: Mapping[str, object]
    payload: bytes
    folder: str | None = None
    keep_history: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its tenant sees it; `seen_at` is the database's clock, `ahead` counts jobs before it in the queue."""

    job_id: JobId
    document_id: DocumentId
    external_id: str
    state: str
    stage: str
    attempts: int
    chunks: int | None
    unchanged: str | None
    warnings: list[str]
    error_code: str | None
    error_detail: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stage_at: datetime | None
    seen_at: datetime
    chunks_done: int
    chunks_total: int | None
    ahead: int | None

    @property
    def chunks_per_s(self) -> float | None:
        """The rate of embedding, None before there is one."""
        if self.stage != "embedding" or self.stage_at is None or not self.chunks_done:
            return None
        seconds = (self.seen_at - self.stage_at).total_seconds()
        return self.chunks_done / seconds if seconds > 0 else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until the last chunk is embedded at this rate, None before there is a rate."""
        rate = self.chunks_per_s
        return (self.chunks_total - self.chunks_done) / rate if rate and self.chunks_total is not None else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: `done`, `failed` or `cancelled`, and why."""

    state: str
    chunks: int | None = None
    unchanged: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The jobs of one `rag ingest`: how many still wait or run, how many ended how, and their chunks."""

    waiting: int = 0
    done: int = 0
    unchanged: int = 0
    failed: int = 0
    cancelled: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person should know of one job of a run."""

    external_id: str
    state: str
    error_code: str | None
    error_detail: str | None
    warnings: list[str]


async def enqueue(tx: TenantTx, upload: Upload, *, idempotency_key: str | None = None) -> tuple[JobId, DocumentId]:
    """The ids of the job and its document; a job still waiting for the same document is superseded.

    A request with an *idempotency_key* makes one job, however often it is sent. Raises Conflict when the key came with
    another request before.
    """
    if idempotency_key is None:
        return (await _enqueue(tx, [upload]))[0]
    sha256 = _hash(upload)
    await tx.fetch("lock_idempotency_key", idempotency_key=idempotency_key)
    for job, document, known in await tx.fetch("find_request", idempotency_key=idempotency_key):
        if bytes(known) != sha256:
            raise Conflict("this Idempotency-Key came with another request before; use a new one")
        return JobId(job), DocumentId(document)
    return (await _enqueue(tx, [upload], request=(idempotency_key, sha256)))[0]


async def enqueue_run(tx: TenantTx, uploads: Sequence[Upload], run_id: RunId) -> None:
    """Ask for many documents at once, as part of a run; their ids are distinct."""
    await _enqueue(tx, uploads, run_id=run_id)


async def supersede(tx: TenantTx, external_ids: Sequence[str]) -> None:
    """Cancel what still waits for these documents, and wait for what is being written now."""
    ids = [document_id(tx.tenant_id, name) for name in external_ids]
    await tx.fetch("lock_documents", document_ids=ids)
    await drop_jobs(tx, ids)


async def drop_jobs(tx: TenantTx, documents: Sequence[DocumentId]) -> int:
    """The number of open jobs the documents had; they are ended, and out of the queue."""
    ended = [row[0] for row in await tx.fetch("supersede_jobs", document_ids=list(documents))]
    if ended:
        await tx.run("dequeue_jobs", job_ids=ended)
    return len(ended)


async def get_job(tx: TenantTx, job_id: UUID) -> Job:
    """The job.

    Raises NotFound when this tenant has none of that id.
    """
    rows = await tx.fetch("get_job", job_id=job_id)
    if not rows:
        raise NotFound(f"there is no job {job_id}")
    return Job(*rows[0])


async def newest_job(tx: TenantTx, external_id: str) -> Job | None:
    """The last job of a document, None when it had none."""
    rows = await tx.fetch("newest_job", document_id=document_id(tx.tenant_id, external_id))
    return await get_job(tx, rows[0][0]) if rows else None


async def list_jobs(tx: TenantTx, state: str | None, *, limit: int) -> list[Job]:
    """The tenant's newest jobs, of one *state* if it is given; their `ahead` is None."""
    return [Job(*row) for row in await tx.fetch("list_jobs", state=state, limit=limit)]


async def cancel_job(tx: TenantTx, job_id: UUID) -> Job:
    """The cancelled job; what it would have written is never written.

    Raises Conflict when it has already ended.
    """
    job = await get_job(tx, job_id)
    if not await end_job(tx, job.job_id, Outcome("cancelled")):
        raise Conflict(f"the job has already ended: {job.state}")
    return await get_job(tx, job_id)


async def end_job(tx: TenantTx, job_id: JobId, outcome: Outcome, *, attempt: int | None = None) -> bool:
    """Whether the job had not ended before; it is then out of the queue with this outcome.

    Nor has it ended here when it is no longer in the *attempt* given: another worker has taken it over.
    """
    ended = await tx.run(
        "end_job",
        job_id=job_id,
        attempt=attempt,
        state=outcome.state,
        chunks=outcome.chunks,
        unchanged=outcome.unchanged,
        error_code=outcome.error_code,
        error_detail=outcome.error_detail,
        warnings=list(outcome.warnings),
    )
    if ended:
        await tx.run("dequeue_jobs", job_ids=[job_id])
    return bool(ended)


async def prune_jobs(tx: TenantTx) -> bool:
    """Whether there may be more jobs to delete that ended over KEEP_DAYS ago; idempotency keys go with their jobs."""
    return await tx.run("prune_jobs", keep_days=KEEP_DAYS, most=PRUNE_ROWS) == PRUNE_ROWS


async def run_progress(tx: TenantTx, run_id: RunId) -> RunProgress:
    """How far a run is."""
    rows = await tx.fetch("run_progress", run_id=run_id)
    counts = {state: int(count) for state, count, _, _ in rows}
    unchanged = sum(int(row[2]) for row in rows)
    return RunProgress(
        waiting=counts.get("queued", 0) + counts.get("running", 0),
        done=counts.get("done", 0) - unchanged,
        unchanged=unchanged,
        failed=counts.get("failed", 0),
        cancelled=counts.get("cancelled", 0),
        chunks=sum(int(row[3]) for row in rows),
    )


async def run_remarks(tx: TenantTx, run_id: RunId) -> list[Remark]:
    """The failures and warnings of a run, by external id."""
    return [Remark(*row) for row in await tx.fetch("run_remarks", run_id=run_id)]


async def _enqueue(
    tx: TenantTx, uploads: Sequence[Upload], *, run_id: RunId | None = None, request: tuple[str, bytes] | None = None
) -> list[tuple[JobId, DocumentId]]:
    await supersede(tx, [upload.external_id for upload in uploads])
    ids = [(JobId(uuid4()), document_id(tx.tenant_id, upload.external_id)) for upload in uploads]
    key, request_sha256 = request or (None, None)
    shared = {"run_id": run_id, "idempotency_key": key, "request_sha256": request_sha256}
    rows = [
        {
            **shared,
            "job_id": job,
            "document_id": document,
            "external_id": upload.external_id,
            "content_type": upload.content_type,
            "facets": Jsonb(dict(upload.facets)),
            "payload": upload.payload,
            "folder": upload.folder,
            "keep_history": upload.keep_history,
        }
        for (job, document), upload in zip(ids, uploads, strict=True)
    ]
    await tx.run_many("insert_job", rows)
    await tx.run("enqueue_jobs", job_ids=[job for job, _ in ids], sizes=[len(upload.payload) for upload in uploads])
    return ids


def _hash(upload: Upload) -> bytes:
    stated = [upload.external_id, upload.content_type, dict(upload.facets), upload.keep_history]
    return hashlib.sha256(dumps(stated, sort_keys=True).encode() + upload.payload).digest()
