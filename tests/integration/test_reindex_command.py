from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ingest.pipeline import Pipeline, Source
from rag.inference.onnx import OnnxEmbedder
from rag.retrieval.lexical import LexicalLeg
from rag.store.engine import Database
from rag.values import TenantId
from tests.conftest import REPOSITORY, MakeTenant
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.corpus import question
from tests.integration.indexes import current, indexes, ingest, legs_of
from tests.integration.test_worker_process import until

Run = Callable[..., subprocess.CompletedProcess[str]]

NAME = "reindexed"
DOCUMENTS = 300  # several batches
HELD = "SELECT count(*) FROM documents WHERE tenant_id = %s AND %s = ANY(generations)"


@pytest.fixture
async def named(make_tenant: MakeTenant, owner: psycopg.Connection) -> TenantId:
    """An empty tenant called NAME."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    return await make_tenant(NAME)


@pytest.fixture
def environment(process_environment: dict[str, str], database_url: str) -> dict[str, str]:
    return {**process_environment, "DATABASE_URL": database_url, "RAG_REQUEST_TIMEOUT_S": "0.2"}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Runs `rag reindex` as a shell would, for the tenant called NAME."""

    def reindex(*arguments: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rag", "reindex", "--tenant", NAME, *map(str, arguments)]
        return subprocess.run(
            command, cwd=REPOSITORY, env={**environment, **changed}, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    return reindex


@contextmanager
def running(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rag", "reindex", "--tenant", NAME, *arguments]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def told(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def count(owner: psycopg.Connection, query: str, *parameters: object) -> int:
    return next(int(row[0]) for row in owner.execute(query, parameters))  # type: ignore[call-overload]


async def fill(database: Database, tenant: TenantId, embedder: OnnxEmbedder | FakeEmbedder, documents: int) -> None:
    pipeline = Pipeline(database, embedders(embedder), parse_directly)
    sources = [Source(f"{n}.md", f"# Part {n}\n\nA zebra of number {n} walks.".encode()) for n in range(documents)]
    for at in range(0, documents, 100):
        await pipeline.ingest(tenant, sources[at : at + 100])


async def test_a_tenant_moves_to_this_releases_recipe_and_back_and_the_old_index_goes(
    run: Run, database: Database, named: TenantId, owner: psycopg.Connection
) -> None:
    await fill(database, named, FakeEmbedder(), 5)

    there = told(run("--json"))
    again = told(run("--json"))
    no_way_back = run("--rollback")  # the fake is among nobody's RAG_EMBEDDER
    dropped = told(run("--drop-old", "--json"))
    nothing = told(run("--drop-old", "--json"))

    assert (there["state"], there["index"], there["documents"], there["embedded"]) == ("switched", 2, 5, 5)
    assert (again["state"], again["documents"]) == ("unchanged", 0)
    assert no_way_back.returncode == 1
    assert "index 1 (fake-embedder" in no_way_back.stderr
    assert "was made with embedder fake-embedder, and here is only " in no_way_back.stderr
    assert "name both in RAG_EMBEDDER, separated by a comma" in no_way_back.stderr
    assert (dropped["state"], dropped["index"], nothing["state"]) == ("dropped", 2, "unchanged")
    assert count(owner, "SELECT count(*) FROM chunks WHERE tenant_id = %s", named) == 5
    assert (await indexes(database, named)).below == ()


async def test_an_index_is_built_and_left_for_a_look_and_the_next_call_switches(
    run: Run, database: Database, named: TenantId, embedder: OnnxEmbedder
) -> None:
    await fill(database, named, embedder, 3)

    unasked = told(run("--json"))
    built = told(run("--anyway", "--no-switch", "--json"))
    before = await current(database, named)
    await ingest(database, named, {"late.md": "A late zebra."}, embedders(embedder))
    switched = told(run("--anyway", "--json"))
    back = told(run("--rollback", "--json"))

    assert (unasked["state"], built["state"], built["index"]) == ("unchanged", "built", 2)
    assert (built["embedded"], built["reused"]) == (0, 3)
    assert before.generation == 1
    assert (switched["state"], switched["index"], switched["documents"]) == ("switched", 2, 1)
    assert (back["state"], back["index"], back["documents"]) == ("switched", 1, 0)
    assert (await current(database, named)).generation == 1


async def test_an_index_that_was_built_and_not_switched_to_is_named(
    run: Run, database: Database, named: TenantId, embedder: OnnxEmbedder
) -> None:
    await fill(database, named, embedder, 3)
    alone = run()
    told(run("--anyway", "--no-switch", "--json"))

    whole = run()
    await ingest(database, named, {"late.md": "A late zebra."}, embedders(embedder))
    behind = run()
    switched = told(run("--anyway", "--json"))

    assert "nothing to do, index 1 (" in alone.stdout
    assert "is built and waits to be switched to: --anyway goes on with it, --drop-old drops it\n" in whole.stdout
    assert "lacks 1 document: --anyway goes on with it" in behind.stdout
    assert "nothing to do" not in whole.stdout + behind.stdout
    assert (switched["state"], switched["index"]) == ("switched", 2)


async def test_a_half_built_index_of_another_recipe_is_named_and_can_be_dropped(
    run: Run, database: Database, named: TenantId, owner: psycopg.Connection
) -> None:
    await fill(database, named, FakeEmbedder(), 3)
    told(run("--no-switch", "--json"))
    owner.execute("UPDATE indexes SET chunker = 'older' WHERE tenant_id = %s AND generation = 2", (named,))

    refused = run()
    restarted = told(run("--restart", "--json"))

    assert refused.returncode == 1
    assert "index 2" in refused.stderr
    assert "--restart" in refused.stderr
    assert (restarted["state"], restarted["documents"]) == ("switched", 3)
    assert count(owner, "SELECT count(*) FROM chunks WHERE tenant_id = %s", named) == 6


async def test_a_tenant_without_documents_has_nothing_to_do(run: Run, named: TenantId) -> None:
    assert told(run("--json"))["state"] == "unchanged"


def test_options_that_contradict_each_other_are_a_wrong_command_line(run: Run) -> None:
    assert run("--rollback", "--anyway").returncode == 2
    assert run("--rollback", "--drop-old").returncode == 2


async def test_a_build_that_was_killed_goes_on_where_it_was(
    database: Database,
    named: TenantId,
    owner: psycopg.Connection,
    environment: dict[str, str],
    run: Run,
    embedder: OnnxEmbedder,
) -> None:
    await fill(database, named, embedder, DOCUMENTS)

    async def begun() -> bool:
        return count(owner, HELD, named, 2) > 0

    async def blocked() -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'embeddings'::regclass AND NOT granted"
        return count(owner, waiting) > 0

    with running(environment, "--anyway") as process:
        await until(begun)
        with owner.transaction():
            owner.execute("LOCK TABLE embeddings IN SHARE MODE")  # holds a batch up between chunks and vectors
            await until(blocked)
            process.kill()
            process.wait()
    done = count(owner, HELD, named, 2)
    found = await LexicalLeg(database)(named, question("zebra"), 50)
    still = await current(database, named)
    first_ords = (
        "SELECT array_agg(ord ORDER BY ord) FROM (SELECT ord FROM chunks WHERE tenant_id = %s AND generation = 2"
    )
    kept = owner.execute(f"{first_ords} ORDER BY ord LIMIT %s) s", (named, done)).fetchall()  # type: ignore[arg-type]

    summary = told(run("--anyway", "--json"))

    assert 0 < done < DOCUMENTS
    assert (still.generation, len(found.ranked)) == (1, 50)
    assert (summary["state"], summary["index"], summary["documents"]) == ("switched", 2, DOCUMENTS - done)
    assert owner.execute(f"{first_ords} ORDER BY ord LIMIT %s) s", (named, done)).fetchall() == kept  # type: ignore[arg-type]
    per_document = "SELECT count(*) FROM chunks WHERE tenant_id = %s AND generation = 2 GROUP BY document_id"
    assert owner.execute(per_document, (named,)).fetchall() == [(1,)] * DOCUMENTS
    assert len((await legs_of(database, embedders(embedder)).dense(named, question("zebra"), 50)).ranked) == 50


async def test_dropping_that_was_killed_goes_on(
    database: Database,
    named: TenantId,
    owner: psycopg.Connection,
    environment: dict[str, str],
    run: Run,
    embedder: OnnxEmbedder,
) -> None:
    await fill(database, named, embedder, 20)
    told(run("--anyway", "--json"))

    async def blocked() -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'postings'::regclass AND NOT granted"
        return count(owner, waiting) > 0

    with owner.transaction(), running(environment, "--drop-old") as process:
        owner.execute("LOCK TABLE postings IN SHARE MODE")  # holds it up between documents and postings
        await until(blocked)
        process.kill()
        process.wait()
    half = {table: count(owner, f"SELECT count(*) FROM {table} WHERE tenant_id = %s AND generation = 1", named)
            for table in ("chunks", "postings", "indexes")}  # fmt: skip
    done = told(run("--drop-old", "--json"))

    assert half["chunks"] == 0
    assert half["postings"] > 0
    assert half["indexes"] == 1
    assert done["state"] == "dropped"
    assert count(owner, "SELECT count(*) FROM postings WHERE tenant_id = %s AND generation = 1", named) == 0
    assert count(owner, HELD, named, 1) == 0
    assert count(owner, HELD, named, 2) == 20
    assert len((await LexicalLeg(database)(named, question("zebra"), 50)).ranked) == 20
