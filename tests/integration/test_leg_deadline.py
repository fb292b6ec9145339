"""A leg that is late: a real statement that waits for a real lock, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest

from rag.errors import DeadlineExceeded, StoreError
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.values import Retrieval, TenantId
from tests.conftest import POOL_SIZE, MakeTenant
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import prepared, question, store

pytestmark = pytest.mark.quiet

DEADLINE_S = 0.3
RANKING = Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=1.0, leg_deadline_s=DEADLINE_S)


@pytest.fixture
async def filled(database: Database, make_tenant: MakeTenant) -> TenantId:
    tenant = await make_tenant()
    await store(database, tenant, [prepared("a.md", "boats sail"), prepared("b.md", "trains run")])
    return tenant


def retriever(database: Database, ranking: Ranking = RANKING) -> Retriever:
    return Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=ranking,
    )


@asynccontextmanager
async def locked(url: str, table: LiteralString) -> AsyncIterator[psycopg.AsyncConnection]:
    """Nobody else can read the table meanwhile."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield connection
        await connection.rollback()


def waiting(owner: psycopg.Connection) -> int:
    """How many statements on the server wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    [(count,)] = owner.execute(query).fetchall()
    return int(count)


@pytest.mark.parametrize(
    ("table", "found"),
    [("postings", ["a.md", "b.md"]), ("embeddings", ["a.md"])],
    ids=["the lexical leg is late", "the dense leg is late"],
)
async def test_what_the_other_leg_found_is_the_result_and_says_that_it_is_not_complete(
    database: Database, database_url: str, filled: TenantId, table: LiteralString, found: list[str]
) -> None:
    before = await retriever(database).retrieve(filled, question("boats"))
    async with locked(database_url, table):
        late = await retriever(database).retrieve(filled, question("boats"))
    after = await retriever(database).retrieve(filled, question("boats"))

    assert [hit.chunk.external_id for hit in late.hits] == found
    assert (before.complete, late.complete, after.complete) == (True, False, True)
    assert after.hits == before.hits


async def test_the_late_statement_is_cancelled_and_its_connection_free(
    database: Database, database_url: str, owner: psycopg.Connection, filled: TenantId
) -> None:
    async with locked(database_url, "postings"):
        for _ in range(POOL_SIZE):
            await retriever(database).retrieve(filled, question("boats"))

        assert waiting(owner) == 0
        await asyncio.wait_for(asyncio.gather(*(connect(database, filled) for _ in range(POOL_SIZE))), timeout=2)


async def test_more_searches_than_connections_do_not_wait_for_each_other(
    database: Database, database_url: str, owner: psycopg.Connection, filled: TenantId
) -> None:
    async with locked(database_url, "postings"):
        searches = (retriever(database).retrieve(filled, question("boats")) for _ in range(3 * POOL_SIZE))
        outcomes = await asyncio.wait_for(asyncio.gather(*searches, return_exceptions=True), timeout=5)

        assert waiting(owner) == 0
        await asyncio.wait_for(asyncio.gather(*(connect(database, filled) for _ in range(POOL_SIZE))), timeout=2)
    assert {type(outcome) for outcome in outcomes} <= {Retrieval, DeadlineExceeded}


async def connect(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant):
        await asyncio.sleep(0.1)  # all of them at once


async def test_a_result_comes_at_the_deadline(database: Database, database_url: str, filled: TenantId) -> None:
    async with locked(database_url, "postings"):
        started = time.monotonic()
        await retriever(database).retrieve(filled, question("boats"))
        took_s = time.monotonic() - started

    assert DEADLINE_S <= took_s < DEADLINE_S + 1.5


async def test_when_both_are_late_it_is_an_error_and_both_connections_are_free(
    database: Database, database_url: str, owner: psycopg.Connection, filled: TenantId
) -> None:
    async with locked(database_url, "postings"), locked(database_url, "embeddings"):
        with pytest.raises(DeadlineExceeded):
            await retriever(database).retrieve(filled, question("boats"))

        assert waiting(owner) == 0


async def test_who_gives_up_frees_both_connections(
    database: Database, database_url: str, owner: psycopg.Connection, filled: TenantId
) -> None:
    patient = retriever(database, replace(RANKING, leg_deadline_s=60.0))
    async with locked(database_url, "postings"):
        with pytest.raises(TimeoutError):
            await timed_out(patient.retrieve(filled, question("boats")))

        assert waiting(owner) == 0


async def timed_out(search: Awaitable[Retrieval]) -> Retrieval:
    return await asyncio.wait_for(search, timeout=DEADLINE_S)


async def test_a_leg_that_fails_is_an_error_and_leaves_nothing_behind(
    database: Database, database_url: str, owner: psycopg.Connection, filled: TenantId
) -> None:
    owner.execute("ALTER TABLE embeddings RENAME TO away")
    try:
        async with locked(database_url, "postings"):
            with pytest.raises(StoreError, match="embeddings"):
                await retriever(database).retrieve(filled, question("boats"))

            assert waiting(owner) == 0
    finally:
        owner.execute("ALTER TABLE away RENAME TO embeddings")
