from __future__ import annotations

import subprocess
import sys
import time

import psycopg

from ingest.worker import MAX_ATTEMPTS
from rag.store.engine import Database
from rag.values import TenantId
from tests.conftest import REPOSITORY
from tests.integration.crash_worker import DEADLY
from tests.integration.uploads import document, job_of, queued, upload

LEASE_S, EMBEDDING_S = 1.0, 0.3  # long enough that a document in the other lane is hit as well
DEADLINE_S = 150.0


async def test_documents_that_kill_their_worker_take_no_other_down_with_them(
    database: Database,
    tenant: TenantId,
    owner: psycopg.Connection,
    database_url: str,
    process_environment: dict[str, str],
) -> None:
    poison = [await upload(database, tenant, f"{DEADLY} {n}".encode(), f"poison-{n}") for n in range(3)]
    good = [await upload(database, tenant, f"A zebra of number {n}.".encode(), f"good-{n}") for n in range(2)]
    command = [sys.executable, "-m", "tests.integration.crash_worker", database_url, str(LEASE_S), str(EMBEDDING_S)]

    deaths, give_up = 0, time.monotonic() + DEADLINE_S
    while queued(owner) and time.monotonic() < give_up:
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=process_environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while queued(owner) and process.poll() is None:
                time.sleep(0.05)
            process.kill()
        deaths += 1

    ended = [await job_of(database, tenant, job) for job in (*poison, *good)]
    assert [job.state for job in ended] == ["failed"] * 3 + ["done"] * 2
    assert {job.error_detail for job in ended[:3]} == {f"no worker survived it, {MAX_ATTEMPTS} times"}
    assert deaths <= 1 + 3 * (MAX_ATTEMPTS - 1) + 1
    assert all([await document(database, tenant, f"good-{n}") for n in range(2)])
