"""`rag jobs`."""

from __future__ import annotations

import argparse
from datetime import UTC

from rag.api.jobs import job_result
from rag.commands.opened import show, with_store
from rag.commands.tables import table
from rag.errors import InvalidInput
from rag.store.engine import Database
from rag.store.jobs import Job, list_jobs
from rag.store.tenancy import find_tenant
from rag.telling import counted, shortened

MOST = 10_000  # jobs shown at once
MOST_SAID = 120  # characters of a reason, which --json has whole


def show_latest(arguments: argparse.Namespace) -> None:
    """Show the tenant's newest jobs."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        async with database.reading(tenant) as tx:
            found = await list_jobs(tx, arguments.state, limit=arguments.limit)
        if arguments.json:
            for job in found:
                show(job_result(job).model_dump_json())
        elif found:
            show(table(["created, UTC", "state", "document", "details"], [_row(job) for job in found]))
        else:
            show(f"tenant {arguments.tenant} has no {f'{arguments.state} ' if arguments.state else ''}job")

    if not 1 <= arguments.limit <= MOST:
        raise InvalidInput(f"--limit takes 1 to {MOST}")
    with_store(run)


def _row(job: Job) -> list[object]:
    return [f"{job.created_at.astimezone(UTC):%Y-%m-%d %H:%M}", job.state, job.external_id, _remark(job)]


def _remark(job: Job) -> str:
    """Why it failed or waits, how far it is, or what came of it."""
    if job.error_code and job.state != "done":
        return shortened(f"{job.error_code}: {job.error_detail}", MOST_SAID)
    if job.state == "cancelled" and job.stage == "superseded":
        return "a newer upload took its place"
    if job.state == "running" and job.chunks_total:
        return f"{job.stage}, {job.chunks_done} of {counted(job.chunks_total, 'chunk')}"
    if job.state == "running":
        return job.stage
    if job.unchanged:
        return f"unchanged: {job.unchanged}"
    return "" if job.chunks is None else counted(job.chunks, "chunk")
