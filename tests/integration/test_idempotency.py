from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg
import pytest

from rag.errors import Conflict
from rag.store.engine import Database
from rag.store.jobs import Upload, enqueue
from rag.values import JobId, TenantId
from tests.conftest import MakeTenant
from tests.integration.uploads import FIRST, SECOND, job_of, worker_of

UPLOAD = Upload("handbook", "text/markdown", {"title": "Handbook"}, FIRST)


@pytest.fixture(autouse=True)
def empty_queue(owner: psycopg.Connection) -> None:
    owner.execute("DELETE FROM jobs")


async def ask(database: Database, tenant: TenantId, upload: Upload = UPLOAD, key: str = "key") -> JobId:
    async with database.tenant(tenant) as tx:
        return (await enqueue(tx, upload, idempotency_key=key))[0]


def jobs(owner: psycopg.Connection) -> int:
    return next(int(row[0]) for row in owner.execute("SELECT count(*) FROM jobs"))


async def test_the_same_request_under_one_key_is_one_job(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    first, again = await ask(database, tenant), await ask(database, tenant)

    assert first == again
    assert jobs(owner) == 1


async def test_requests_at_the_same_time_under_one_key_are_one_job(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    asked = await asyncio.gather(*(ask(database, tenant) for _ in range(8)))

    assert len(set(asked)) == 1
    assert jobs(owner) == 1


async def test_the_same_request_after_its_job_has_ended_does_nothing_again(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    first = await ask(database, tenant)
    await worker_of(database).run_one()

    again = await ask(database, tenant)

    assert again == first
    assert (await job_of(database, tenant, first)).state == "done"
    assert jobs(owner) == 1


async def test_a_repeated_request_does_not_bring_back_what_a_later_upload_replaced(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    first = await ask(database, tenant)
    later = await ask(database, tenant, replace(UPLOAD, payload=SECOND), key="later")

    again = await ask(database, tenant)

    assert again == first
    assert [(await job_of(database, tenant, job)).stage for job in (first, later)] == ["superseded", "queued"]


@pytest.mark.parametrize(
    "other",
    [
        replace(UPLOAD, payload=SECOND),
        replace(UPLOAD, external_id="other"),
        replace(UPLOAD, content_type="text/plain"),
        replace(UPLOAD, facets={"title": "Another"}),
        replace(UPLOAD, keep_history=True),
    ],
    ids=["content", "external id", "content type", "facets", "history"],
)
async def test_another_request_under_a_key_that_was_used_is_a_conflict(
    database: Database, tenant: TenantId, owner: psycopg.Connection, other: Upload
) -> None:
    first = await ask(database, tenant)

    with pytest.raises(Conflict, match="Idempotency-Key"):
        await ask(database, tenant, other)

    assert jobs(owner) == 1
    assert (await job_of(database, tenant, first)).state == "queued"


async def test_different_requests_at_the_same_time_under_one_key_are_one_job_and_conflicts(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    uploads = [replace(UPLOAD, external_id=f"doc-{n}") for n in range(6)]

    asked = await asyncio.gather(*(ask(database, tenant, one) for one in uploads), return_exceptions=True)

    assert sum(isinstance(one, Conflict) for one in asked) == 5
    assert jobs(owner) == 1


async def test_a_key_belongs_to_its_tenant(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    one, other = await make_tenant(), await make_tenant()

    asked = [await ask(database, one), await ask(database, other, replace(UPLOAD, payload=SECOND))]

    assert len(set(asked)) == 2
    assert jobs(owner) == 2
