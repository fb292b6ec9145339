"""The queue as workers see it: batches claimed under a lease, begun, watched, and put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.store.engine import Database, TenantTx
from rag.store.jobs import Upload
from rag.values import JobId, TenantId

LEASE_S = 60.0  # a worker that is silent for longer has lost its jobs
BATCH_JOBS = 64  # written in one transaction: few posting blocks, little to repeat
BATCH_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Claim:
    """Jobs of one tenant leased to a worker; `tries` counts the claims of each, this one included."""

    tenant_id: TenantId
    job_ids: tuple[JobId, ...]
    tries: int

    @property
    def is_first(self) -> bool:
        """Whether nobody has failed at these jobs; otherwise it is one job, which may be why its worker died."""
        return self.tries == 1


@dataclass(frozen=True, slots=True)
class Begun:
    """A job in a worker's hands: its upload, and the number of this attempt.

    Whoever has begun a later attempt has taken the job over; this one then changes nothing any more.
    """

    job_id: JobId
    attempt: int
    upload: Upload


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is: its stage, the chunks that have a vector by now, and all its chunks once they are known."""

    stage: str
    done: int = 0
    total: int | None = None


async def claim(database: Database, only: TenantId | None = None, *, lease_s: float = LEASE_S) -> Claim | None:
    """A batch of one tenant's jobs whose turn it is, leased to the caller; None when nothing waits."""
    async with database.worker() as tx:
        rows = await tx.fetch("claim_jobs", only=only, lease_s=lease_s, most_jobs=BATCH_JOBS, most_bytes=BATCH_BYTES)
    return Claim(TenantId(rows[0][0]), tuple(JobId(row[1]) for row in rows), int(rows[0][2])) if rows else None


async def extend_leases(database: Database, claimed: Claim, *, lease_s: float = LEASE_S) -> None:
    """Let the leases of those jobs run anew that are still in the queue and the caller's."""
    async with database.worker() as tx:
        await tx.fetch(
            "extend_leases",
            tenant=claimed.tenant_id,
            job_ids=list(claimed.job_ids),
            tries=claimed.tries,
            lease_s=lease_s,
        )


async def begin_jobs(tx: TenantTx, claimed: Claim) -> list[Begun]:
    """Those of the jobs that have neither ended meanwhile nor been claimed by another, with their uploads.

    They come by id, the order in which every transaction locks jobs. What has ended leaves the queue.
    """
    rows = await tx.fetch("begin_jobs", job_ids=list(claimed.job_ids), tries=claimed.tries)
    begun = [
        Begun(JobId(job), attempt, Upload(name, kind, facets, bytes(payload), folder, keep_history))
        for job, attempt, name, kind, facets, payload, folder, keep_history in sorted(rows, key=lambda row: row[0])
    ]
    if gone := set(claimed.job_ids) - {job.job_id for job in begun}:
        await tx.run("dequeue_ended_jobs", job_ids=list(gone))
    return begun


async def show_progress(tx: TenantTx, progress: Sequence[tuple[Begun, Progress]]) -> set[JobId]:
    """Those of the jobs that still run; the others were cancelled, superseded, or taken over."""
    rows = await tx.fetch(
        "show_progress",
        job_ids=[job.job_id for job, _ in progress],
        attempts=[job.attempt for job, _ in progress],
        stages=[at.stage for _, at in progress],
        done=[at.done for _, at in progress],
        totals=[at.total for _, at in progress],
    )
    return {JobId(row[0]) for row in rows}


async def retry_later(
    tx: TenantTx, job: Begun, *, delay_s: float, code: str, detail: str, counted: int | None = None
) -> None:
    """Put the job back for another attempt after *delay_s*, with *counted* attempts instead of all it had."""
    waits = await _queue_again(tx, job, code=code, detail=detail, counted=job.attempt if counted is None else counted)
    if waits:
        await tx.run("postpone_job", job_id=job.job_id, delay_s=delay_s, uncounted=0)


async def put_off(tx: TenantTx, jobs: Sequence[Begun], *, delay_s: float, code: str, detail: str) -> None:
    """Let the jobs wait for *delay_s* as if they had not been tried, each with the reason."""
    for job in jobs:
        if await _queue_again(tx, job, code=code, detail=detail, counted=job.attempt - 1):
            await tx.run("postpone_job", job_id=job.job_id, delay_s=delay_s, uncounted=1)


async def give_back(tx: TenantTx, claimed: Claim, begun: Sequence[Begun]) -> None:
    """Undo `claim` and `begin_jobs`: the jobs wait as if they had not been tried."""
    for job in begun:
        await tx.run("unbegin_job", job_id=job.job_id, attempt=job.attempt)
    await tx.run("unclaim_jobs", job_ids=list(claimed.job_ids), tries=claimed.tries)


async def _queue_again(tx: TenantTx, job: Begun, *, code: str, detail: str, counted: int) -> bool:
    """Whether the job, still the caller's, waits again with *counted* attempts and the reason."""
    touched = await tx.run(
        "retry_job", job_id=job.job_id, attempt=job.attempt, counted=counted, error_code=code, error_detail=detail
    )
    return touched > 0
