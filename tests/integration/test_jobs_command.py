"""What `rag jobs` tells."""

from __future__ import annotations

import json

from rag.store.engine import Database
from rag.store.jobs import Outcome, Upload, end_job, enqueue
from rag.values import JobId, tenant_id
from tests.integration.commands import NAME, Run


async def queue(database: Database, name: str, outcome: Outcome | None = None) -> JobId:
    async with database.tenant(tenant_id(NAME)) as tx:
        job, _ = await enqueue(tx, Upload(name, "text/markdown", {}, b"# A"))
        if outcome is not None:
            await end_job(tx, job, outcome)
    return job


async def test_jobs_are_listed_the_newest_first_with_what_became_of_them(run: Run, database: Database) -> None:
    await queue(database, "a.md", Outcome("done", chunks=1))
    await queue(database, "b.pdf", Outcome("failed", error_code="unreadable", error_detail="It has a password."))
    await queue(database, "c.md")
    await queue(database, "c.md")

    told = run("jobs")

    head, *rows = [line.split(maxsplit=4) for line in told.stdout.splitlines()]
    assert head == ["created,", "UTC", "state", "document", "details"]
    assert [row[2:] for row in rows] == [
        ["queued", "c.md"],
        ["cancelled", "c.md", "a newer upload took its place"],
        ["failed", "b.pdf", "unreadable: It has a password."],
        ["done", "a.md", "1 chunk"],
    ]


async def test_a_long_reason_of_several_lines_is_one_line_with_an_ellipsis_and_whole_in_json(
    run: Run, database: Database
) -> None:
    reason = "It has a password.\n" * 50
    await queue(database, "b.pdf", Outcome("failed", error_code="unreadable", error_detail=reason))

    told, whole = run("jobs"), run("jobs", "--json")

    _, row = told.stdout.splitlines()
    assert row.endswith(" unreadable: It has a password. It has a password. It has a password. It has a password."
                        " It has a password. It has a…")  # fmt: skip
    assert json.loads(whole.stdout)["error"]["detail"] == reason


async def test_jobs_may_be_of_one_state_and_as_the_api_gives_them(run: Run, database: Database) -> None:
    await queue(database, "a.md", Outcome("done", chunks=1))
    waiting = [await queue(database, f"{n}.md") for n in range(3)]

    told = run("jobs", "--state", "queued", "--limit", "2", "--json")

    jobs = [json.loads(line) for line in told.stdout.splitlines()]
    assert [job["job_id"] for job in jobs] == [str(job) for job in reversed(waiting[1:])]
    assert {job["state"] for job in jobs} == {"queued"}


def test_no_job_and_no_such_number_are_said(run: Run) -> None:
    nothing, failed, none = run("jobs"), run("jobs", "--state", "failed"), run("jobs", "--limit", "0")

    assert nothing.stdout == f"tenant {NAME} has no job\n"
    assert failed.stdout == f"tenant {NAME} has no failed job\n"
    assert (none.returncode, none.stderr) == (1, "rag: --limit takes 1 to 10000\n")
