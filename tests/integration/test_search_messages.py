"""What a search does not ask the database twice, or at all."""

from __future__ import annotations

import psycopg
import pytest

from eval.bench.noted import Notes, NotingDatabase
from rag.protocols import Leg, Ordinals
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Ranking, Retriever
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.neighbours import graph_if_large
from rag.values import Leaf, LegResult, Question, TenantId, content_id
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import prepared, question, scope, store

NAMES = [f"note-{n}" for n in range(70)]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def leg(database: Database, notes: Notes) -> DenseLeg:
    return DenseLeg(NotingDatabase(database, notes), embedders(), exact_below=0)


async def fill(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared(name, f"parcel number {name}") for name in NAMES])


def counted(notes: Notes) -> int:
    """How often the chunks in scope were counted since the last look."""
    return sum("chunk_count" in statement.text.as_string() for statement in notes.take("groups"))


async def test_a_scope_is_counted_once_until_the_tenant_changes(
    database: Database, owner: psycopg.Connection, tenant: TenantId, leg: DenseLeg, notes: Notes
) -> None:
    await fill(database, tenant)
    await graph_if_large(database, tenant, above=0)
    owner.execute("ANALYZE neighbours")
    await leg(tenant, question("parcel"), 5)
    assert counted(notes) == 1

    await leg(tenant, question("another parcel"), 5)
    again = counted(notes)
    await leg(tenant, question("parcel", scope(Leaf("external_id", "ne", "note-1"))), 5)
    of_another_scope = counted(notes)
    async with database.tenant(tenant) as tx:
        await delete_document(tx, "note-3")
    found = await leg(tenant, question("parcel"), 100)

    assert (again, of_another_scope, counted(notes)) == (0, 1, 1)
    assert len(found.ranked) == len(NAMES) - 1


class Slow:
    """A leg after which, before its chunks are loaded, the best of them is deleted."""

    def __init__(self, leg: Leg, database: Database) -> None:
        self._leg = leg
        self._database = database

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        found = await self._leg(tenant_id, question, depth)
        names = {content_id(f"parcel number {name}"): name for name in NAMES}
        async with self._database.tenant(tenant_id) as tx:
            await delete_document(tx, names[found.ranked[0].content])
        return found


async def test_a_chunk_deleted_before_it_is_loaded_leaves_its_place_to_the_next(
    database: Database, tenant: TenantId
) -> None:
    await fill(database, tenant)

    found = await retriever_over(database, slow=True).retrieve(
        tenant, Question("parcel number", scope(), top_k=6, rerank=False)
    )

    assert len(found.hits) == 6
    assert [hit.fused_rank for hit in found.hits] == [1, 2, 3, 4, 5, 6]


async def test_hits_are_the_same_however_many_are_asked_for(database: Database, tenant: TenantId) -> None:
    await fill(database, tenant)
    retriever = retriever_over(database)

    many = await retriever.retrieve(tenant, Question("parcel number", scope(), top_k=40, rerank=False))
    few = await retriever.retrieve(tenant, Question("parcel number", scope(), top_k=3, rerank=False))

    assert len(many.hits) == 40
    assert few.hits == many.hits[:3]


def retriever_over(database: Database, *, slow: bool = False) -> Retriever:
    dense: Leg = DenseLeg(database, embedders(), exact_below=10_000)
    if slow:
        dense = Slow(dense, database)
    ranking = Ranking(rerank_top=50, rerank_deadline_s=3, rerank_weight=1, fused_weight=1)
    return Retriever(database, dense=dense, lexical=LexicalLeg(database), reranker=FakeReranker(), ranking=ranking)
