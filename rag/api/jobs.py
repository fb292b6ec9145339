"""`/v1/jobs`: how an upload goes."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from rag.api.auth import ServicesDep, Writer
from rag.api.limits import InTime
from rag.store.jobs import Job, cancel_job, get_job

router = APIRouter(prefix="/v1/jobs", tags=["documents"], route_class=InTime)


class JobError(BaseModel):
    """Why a job failed, or why it waits for another attempt."""

    code: str
    detail: str


class JobProgress(BaseModel):
    """How far a job is: chunks with a vector of all its chunks, the rate, and the seconds left at this rate."""

    chunks_done: int
    chunks_total: int | None
    chunks_per_s: float | None
    eta_s: float | None


class JobResult(BaseModel):
    """A job's state; `ahead` counts the tenant's jobs before it while it waits."""

    job_id: UUID
    document_id: UUID
    external_id: str
    state: str
    stage: str
    attempts: int
    chunks: int | None
    unchanged: str | None
    warnings: list[str]
    progress: JobProgress
    ahead: int | None
    error: JobError | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@router.get("/{job_id}")
async def get_one(job_id: UUID, who: Writer, services: ServicesDep) -> JobResult:
    """The job's stage, counts, and error with its cause."""
    async with services.database.tenant(who.tenant_id) as tx:
        return job_result(await get_job(tx, job_id))


@router.post("/{job_id}/cancel")
async def post_cancel(job_id: UUID, who: Writer, services: ServicesDep) -> JobResult:
    """Cancel the job: nothing of it is written any more."""
    async with services.database.tenant(who.tenant_id) as tx:
        return job_result(await cancel_job(tx, job_id))


def job_result(job: Job) -> JobResult:
    """The body for a job."""
    error = JobError(code=job.error_code, detail=job.error_detail or "") if job.error_code else None
    progress = JobProgress(
        chunks_done=job.chunks_done, chunks_total=job.chunks_total, chunks_per_s=job.chunks_per_s, eta_s=job.eta_s
    )
    fields = {name: getattr(job, name) for name in JobResult.model_fields if name not in {"error", "progress"}}
    return JobResult(error=error, progress=progress, **fields)
