"""The queue as workers see it: batches claimed under a lease, begun, watched, and put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.store.engine import Database, TenantTx
from rag.store.jobs import Upload
from rag.values import JobId, TenantId

LEASE_S = 60.0  # a worker that is silent for longer has lost its jobs
BATCH_JOBS = 64  # written in one transaction: few posting blocks, little to repeat
BATCH_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Begun:
    """A job in a worker's hands: its upload, and the number of this attempt."""

    job_id: JobId
    attempt: int
    upload: Upload


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is: its stage, the chunks that have a vector by now, and all its chunks once they are known."""

    stage: str
    done: int = 0
    total: int | None = None


async def claim(database: Database, only: TenantId | None = None) -> tuple[TenantId, list[JobId]] | None:
    """A batch of one tenant's jobs whose turn it is, leased to the caller; None when nothing waits."""
    async with database.worker() as tx:
        rows = await tx.fetch("claim_jobs", only=only, lease_s=LEASE_S, most_jobs=BATCH_JOBS, most_bytes=BATCH_BYTES)
    return (TenantId(rows[0][0]), [JobId(row[1]) for row in rows]) if rows else None


async def extend_leases(database: Database, tenant_id: TenantId, jobs: Sequence[JobId]) -> None:
    """Let the leases of those jobs that are still in the queue run anew."""
    async with database.worker() as tx:
        await tx.fetch("extend_leases", tenant=tenant_id, job_ids=list(jobs), lease_s=LEASE_S)


async def begin_jobs(tx: TenantTx, jobs: Sequence[JobId]) -> list[Begun]:
    """Those of the jobs that have not ended meanwhile, with their uploads; the others leave the queue."""
    rows = await tx.fetch("begin_jobs", job_ids=list(jobs))
    begun = [
        Begun(JobId(job), attempt, Upload(name, kind, facets, bytes(payload), folder, keep_history))
        for job, attempt, name, kind, facets, payload, folder, keep_history in rows
    ]
    if gone := set(jobs) - {job.job_id for job in begun}:
        await tx.run("dequeue_jobs", job_ids=list(gone))
    return begun


async def show_progress(tx: TenantTx, progress: Mapping[JobId, Progress]) -> set[JobId]:
    """Those of the jobs that still run; the others were cancelled or superseded."""
    rows = await tx.fetch(
        "show_progress",
        job_ids=list(progress),
        stages=[at.stage for at in progress.values()],
        done=[at.done for at in progress.values()],
        totals=[at.total for at in progress.values()],
    )
    return {JobId(row[0]) for row in rows}


async def retry_later(tx: TenantTx, job_id: JobId, *, delay_s: float, code: str, detail: str) -> None:
    """Put the job back for another attempt after *delay_s*."""
    await tx.run("retry_job", job_id=job_id, error_code=code, error_detail=detail)
    await tx.run("postpone_job", job_id=job_id, delay_s=delay_s)


async def give_back(tx: TenantTx, jobs: Sequence[JobId]) -> None:
    """Undo `claim` and `begin_jobs`: the jobs wait as if they had not been tried."""
    await tx.run("unbegin_jobs", job_ids=list(jobs))
    await tx.run("unclaim_jobs", job_ids=list(jobs))
