"""`rag ingest` and what may come between: Ctrl-C, kills, a database that restarts, another one beside it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from rag.store.tenancy import create_tenant
from rag.values import tenant_id
from tests.conftest import REPOSITORY, MakeTenant, open_service_database
from tests.integration.crashing import Machine, running_machine
from tests.integration.embedding import until
from tests.integration.test_worker_process import worker_process

NAME = "interrupted"
TENANT = tenant_id(NAME)
DOCUMENTS = 150  # more than the two batches that a worker has in hand
PARTS = 2
SENTENCE = "A refund takes nine days, and no less, when the parcel comes back by train. "

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some seconds of embedding."""
    for n in range(DOCUMENTS):
        (tmp_path / f"doc-{n:03}.md").write_text(
            "\n\n".join(f"# Part {m} of {n}\n\n{SENTENCE * 5}" for m in range(PARTS))
        )
    return tmp_path


@pytest.fixture
async def start(
    make_tenant: MakeTenant, owner: psycopg.Connection, database_url: str, process_environment: dict[str, str]
) -> Start:
    """Starts `rag ingest` as a shell would, for a new tenant called NAME."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    await make_tenant(NAME)
    return starter(database_url, process_environment)


def starter(url: str, environment: dict[str, str]) -> Start:
    def begin(*arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "rag", "ingest", *map(str, arguments), "--tenant", NAME, "--json"],
            cwd=REPOSITORY,
            env={**environment, "DATABASE_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, int], str]:
    """The exit code, the summary, and what was said on standard error."""
    out, err = process.communicate(timeout=120)
    return process.returncode, json.loads(out) if out else {}, err


def states(owner: psycopg.Connection) -> dict[str, int]:
    return dict(owner.execute("SELECT state, count(*) FROM jobs WHERE tenant_id = %s GROUP BY 1", (TENANT,)).fetchall())


def under_way(owner: psycopg.Connection) -> bool:
    return bool(owner.execute("SELECT 1 FROM jobs WHERE tenant_id = %s AND stage = 'embedding'", (TENANT,)).fetchall())


def assert_each_is_stored_once(owner: psycopg.Connection) -> None:
    stored = "SELECT external_id, chunk_count FROM documents WHERE tenant_id = %s ORDER BY 1"
    chunks = (
        "SELECT count(*), count(DISTINCT content) FROM chunks JOIN embeddings USING (tenant_id, ord)"
        " WHERE tenant_id = %s"
    )
    assert owner.execute(stored, (TENANT,)).fetchall() == [(f"doc-{n:03}.md", PARTS) for n in range(DOCUMENTS)]
    assert owner.execute(chunks, (TENANT,)).fetchall() == [(PARTS * DOCUMENTS, PARTS * DOCUMENTS)]
    assert owner.execute("SELECT 1 FROM job_queue WHERE tenant_id = %s", (TENANT,)).fetchall() == []


async def test_ctrl_c_leaves_the_rest_in_the_queue_and_says_so_and_the_same_command_goes_on(
    start: Start, owner: psycopg.Connection, folder: Path
) -> None:
    process = start(folder)
    await until(lambda: under_way(owner), 60)
    process.send_signal(signal.SIGINT)
    code, _, told = await asyncio.to_thread(finish, process)
    left = states(owner)
    tried = owner.execute("SELECT count(*) FROM job_queue WHERE tries > 0 OR leased_until IS NOT NULL").fetchone()

    again, summary, _ = await asyncio.to_thread(finish, start(folder))

    assert code == 130
    assert left["queued"] >= DOCUMENTS - 128
    assert "running" not in left
    assert tried == (0,)
    assert f"{left.get('done', 0)} of {DOCUMENTS} done; {left['queued']} documents wait in the queue: the same" in told
    assert told.endswith("interrupted; the same command goes on\n")
    assert "Traceback" not in told
    assert (again, summary["files"], summary["failed"]) == (0, DOCUMENTS, 0)
    assert_each_is_stored_once(owner)


def test_ctrl_c_before_anything_is_in_the_queue_is_told_too(folder: Path, process_environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = starter(f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x", process_environment)(folder)
        connection, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        with connection:
            code, summary, told = finish(process)

    assert (code, summary, told) == (130, {}, "interrupted; the same command goes on\n")


async def test_a_killed_ingest_is_finished_by_the_same_command(
    start: Start, owner: psycopg.Connection, folder: Path
) -> None:
    process = start(folder)
    await until(lambda: under_way(owner), 60)
    process.kill()
    process.communicate()

    code, summary, _ = await asyncio.to_thread(finish, start(folder))

    assert (code, summary["files"], summary["failed"]) == (0, DOCUMENTS, 0)
    assert_each_is_stored_once(owner)


async def test_no_wait_leaves_it_all_to_a_worker(
    start: Start,
    owner: psycopg.Connection,
    folder: Path,
    database_url: str,
    process_environment: dict[str, str],
) -> None:
    code, _, told = await asyncio.to_thread(finish, start(folder, "--no-wait"))
    put = states(owner)

    with worker_process(database_url, process_environment):
        await until(lambda: states(owner).get("done") == DOCUMENTS, 90)

    assert code == 0
    assert put == {"queued": DOCUMENTS}
    assert f"{DOCUMENTS} documents wait in the queue" in told
    assert_each_is_stored_once(owner)


async def test_two_of_one_folder_at_the_same_time_both_end_well(
    start: Start, owner: psycopg.Connection, folder: Path
) -> None:
    processes = [start(folder), start(folder)]

    ended = await asyncio.gather(*(asyncio.to_thread(finish, process) for process in processes))

    assert [(code, summary["failed"]) for code, summary, _ in ended] == [(0, 0), (0, 0)]
    assert set(states(owner)) <= {"done", "cancelled"}
    assert_each_is_stored_once(owner)


@pytest.fixture
def machine(process_environment: dict[str, str]) -> Iterator[Machine]:
    """A PostgreSQL that may be killed."""
    with running_machine(process_environment, random.Random(0)) as made:
        yield made


async def test_a_database_that_is_killed_and_started_again_does_not_end_it(
    machine: Machine, folder: Path, process_environment: dict[str, str]
) -> None:
    async with open_service_database(machine.server.url) as database:
        await create_tenant(database, NAME)
    process = starter(machine.server.url, process_environment)(folder)
    with psycopg.connect(machine.server.url, autocommit=True) as owner:
        await until(lambda: under_way(owner), 60)

    await asyncio.to_thread(machine.kill, "postgres")
    code, summary, told = await asyncio.to_thread(finish, process)

    assert (code, summary["files"], summary["failed"]) == (0, DOCUMENTS, 0), told
    with psycopg.connect(machine.server.url, autocommit=True) as owner:
        assert_each_is_stored_once(owner)
