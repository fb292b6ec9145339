"""A tenant whose numbers for chunks are used up says so, and has a way out."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from rag.errors import IndexFull
from rag.store.compaction import numbering
from rag.store.engine import Database
from rag.store.indexes import MOST_ORDS
from rag.values import TenantId
from tests.conftest import REPOSITORY, MakeTenant
from tests.integration.corpus import prepared, store
from tests.integration.indexes import OtherEmbedder, begin, ids, ingest
from tests.integration.reading import Legs, counts
from tests.integration.uploads import job_of, make_due, upload, worker_of

ONE, TWO, THREE = prepared("one", "A zebra."), prepared("two", "A walrus."), prepared("three", "A boat.", "A train.")


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


def use_up(owner: psycopg.Connection, tenant: TenantId, *, but: int) -> None:
    owner.execute("UPDATE tenants SET next_ord = %s WHERE tenant_id = %s", (MOST_ORDS - but, tenant))


async def test_the_last_number_is_given_and_then_an_error_names_the_command_that_helps(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [ONE])
    use_up(owner, tenant, but=1)

    await store(database, tenant, [TWO])
    with pytest.raises(IndexFull, match=r"0 of the tenant's 2147483647 numbers .* left, and 2 .* `rag tenant compact"):
        await store(database, tenant, [THREE])

    assert counts(owner, tenant) == (2, 2, 2, 2)  # nothing of the document that failed


async def test_the_command_makes_the_numbers_of_deleted_chunks_free(
    database: Database,
    make_tenant: MakeTenant,
    owner: psycopg.Connection,
    database_url: str,
    process_environment: dict[str, str],
    legs: Legs,
) -> None:
    tenant = await make_tenant("used up")
    await store(database, tenant, [ONE])
    use_up(owner, tenant, but=1)
    await store(database, tenant, [TWO])

    done = subprocess.run(
        [sys.executable, "-m", "rag", "tenant", "compact", "used up"], cwd=REPOSITORY, capture_output=True, text=True,
        env={**process_environment, "DATABASE_URL": database_url}, timeout=120, check=False,
    )  # fmt: skip
    await store(database, tenant, [THREE])

    assert done.returncode == 0, done.stderr
    assert done.stdout == "tenant used up: 2 chunks; numbers in use: 2147483647 before, 2 now\n"
    dense, lexical = await legs.find(tenant, "zebra walrus boat")
    assert (len(dense), len(lexical)) == (4, 3)


async def test_jobs_wait_until_a_worker_has_freed_numbers_which_it_does_by_itself(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, {"first.md": "A zebra."})
    use_up(owner, tenant, but=0)
    job = await upload(database, tenant)
    worker = worker_of(database)

    assert await worker.run_one()
    waiting = await job_of(database, tenant, job)
    make_due(owner)
    assert await worker.run_one()

    assert (waiting.state, waiting.attempts, waiting.error_code) == ("queued", 0, "index_full")
    assert (await job_of(database, tenant, job)).state == "done"
    async with database.tenant(tenant) as tx:
        assert (await numbering(tx)).next_ord == 2


async def test_an_index_that_is_being_built_says_the_same_and_goes_on_afterwards(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, {"first.md": "A zebra."})
    building = await begin(database, tenant, OtherEmbedder())
    use_up(owner, tenant, but=0)

    with pytest.raises(IndexFull):
        await building.catch_up()
    await building.tidy()
    await building.catch_up()
    await building.switch()

    assert await ids(database, tenant) == ["first.md"]
