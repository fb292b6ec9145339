"""The ingestion queue: jobs under their tenant, and a queue that only says which job waits where."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from rag.errors import Conflict, NotFound
from rag.store.engine import Database, TenantTx
from rag.values import DocumentId, JobId, TenantId, document_id

LEASE_S = 60.0  # a worker that is silent for longer has lost the job


@dataclass(frozen=True, slots=True)
class Upload:
    """A document as a caller sent it: content, its type, and what was said about it."""

    external_id: str
    content_type: str
    facets: dict[str, object]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its tenant sees it."""

    job_id: JobId
    document_id: DocumentId
    external_id: str
    state: str
    stage: str
    attempts: int
    chunks: int | None
    unchanged: str | None
    error_code: str | None
    error_detail: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: `done`, `failed` or `cancelled`, and why."""

    state: str
    chunks: int | None = None
    unchanged: str | None = None
    error_code: str | None = None
    error_detail: str | None = None


async def enqueue(tx: TenantTx, upload: Upload) -> tuple[JobId, DocumentId]:
    """The ids of the new job and its document; jobs still waiting for the same document are superseded."""
    job, document = JobId(uuid4()), document_id(tx.tenant_id, upload.external_id)
    await tx.fetch("lock_document", document_id=document)
    await tx.run("supersede_jobs", document_id=document)
    await tx.run(
        "insert_job",
        job_id=job,
        document_id=document,
        external_id=upload.external_id,
        content_type=upload.content_type,
        facets=Jsonb(upload.facets),
        payload=upload.payload,
    )
    await tx.run("enqueue_job", job_id=job)
    return job, document


async def get_job(tx: TenantTx, job_id: UUID) -> Job:
    """The job.

    Raises NotFound when this tenant has none of that id.
    """
    rows = await tx.fetch("get_job", job_id=job_id)
    if not rows:
        raise NotFound(f"there is no job {job_id}")
    return Job(*rows[0])


async def cancel_job(tx: TenantTx, job_id: UUID) -> Job:
    """The cancelled job; what it would have written is never written.

    Raises Conflict when it has already ended.
    """
    job = await get_job(tx, job_id)
    if not await end_job(tx, job.job_id, Outcome("cancelled")):
        raise Conflict(f"the job has already ended: {job.state}")
    return await get_job(tx, job_id)


async def claim(database: Database) -> tuple[TenantId, JobId] | None:
    """A job whose turn it is, leased to the caller; None when nothing waits."""
    async with database.worker() as tx:
        rows = await tx.fetch("claim_job", lease_s=LEASE_S)
    return (TenantId(rows[0][0]), JobId(rows[0][1])) if rows else None


async def extend_lease(database: Database, tenant_id: TenantId, job_id: JobId) -> bool:
    """Whether the job is still in the queue; the lease then runs anew."""
    async with database.worker() as tx:
        return bool(await tx.fetch("extend_lease", tenant=tenant_id, job_id=job_id, lease_s=LEASE_S))


async def begin_job(tx: TenantTx, job_id: JobId) -> tuple[Upload, int] | None:
    """The job's upload and the number of this attempt; None when it has ended meanwhile."""
    rows = await tx.fetch("begin_job", job_id=job_id)
    if not rows:
        await tx.run("dequeue_job", job_id=job_id)
        return None
    external_id, content_type, facets, payload, attempts = rows[0]
    return Upload(external_id, content_type, facets, bytes(payload)), int(attempts)


async def set_stage(tx: TenantTx, job_id: JobId, stage: str) -> bool:
    """Whether the job still runs; it is then shown at *stage*."""
    return bool(await tx.run("set_stage", job_id=job_id, stage=stage))


async def end_job(tx: TenantTx, job_id: JobId, outcome: Outcome) -> bool:
    """Whether the job had not ended before; it is then out of the queue with this outcome."""
    ended = await tx.run(
        "end_job",
        job_id=job_id,
        state=outcome.state,
        chunks=outcome.chunks,
        unchanged=outcome.unchanged,
        error_code=outcome.error_code,
        error_detail=outcome.error_detail,
    )
    await tx.run("dequeue_job", job_id=job_id)
    return bool(ended)


async def retry_later(tx: TenantTx, job_id: JobId, *, delay_s: float, code: str, detail: str) -> None:
    """Put the job back for another attempt after *delay_s*."""
    await tx.run("retry_job", job_id=job_id, error_code=code, error_detail=detail)
    await tx.run("postpone_job", job_id=job_id, delay_s=delay_s)


async def give_back(tx: TenantTx, job_id: JobId) -> None:
    """Undo `begin_job`: the job waits as if it had not been tried."""
    await tx.run("unbegin_job", job_id=job_id)
    await tx.run("postpone_job", job_id=job_id, delay_s=0.0)
