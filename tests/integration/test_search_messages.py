"""What a search does not ask the database twice, or at all."""

from __future__ import annotations

import psycopg
import pytest
import pytest_asyncio

from eval.bench.noted import Notes, NotingDatabase
from rag.protocols import Leg, Ordinals
from rag.ranking import Ranking
from rag.retrieval import dense
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.neighbours import graph_if_large
from rag.values import Leaf, LegResult, Question, TenantId, content_id
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import prepared, question, scope, store

NAMES = [f"note-{n}" for n in range(70)]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leg(database: Database, notes: Notes, clock: Clock) -> DenseLeg:
    return DenseLeg(NotingDatabase(database, notes), embedders(), exact_below=0, clock=clock)


async def fill(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared(name, f"parcel number {name}") for name in NAMES])


def counted(notes: Notes) -> int:
    """How often the chunks in scope were counted since the last look."""
    return sum("chunk_count" in statement.text.as_string() for statement in notes.take("groups"))


@pytest_asyncio.fixture
async def filled(database: Database, owner: psycopg.Connection, tenant: TenantId) -> TenantId:
    await fill(database, tenant)
    await graph_if_large(database, tenant, above=0)
    owner.execute("ANALYZE neighbours")
    return tenant


async def test_a_scope_is_counted_once_a_minute(
    database: Database, filled: TenantId, leg: DenseLeg, notes: Notes, clock: Clock
) -> None:
    await leg(filled, question("parcel"), 5)
    at_first = counted(notes)
    async with database.tenant(filled) as tx:
        await delete_document(tx, "note-3")
    clock.now += 59
    found = await leg(filled, question("another parcel"), 100)
    within_it = counted(notes)
    await leg(filled, question("parcel", scope(Leaf("external_id", "ne", "note-1"))), 5)
    another_scope = counted(notes)
    clock.now += 2
    await leg(filled, question("parcel"), 5)

    assert (at_first, within_it, another_scope, counted(notes)) == (1, 0, 1, 1)
    assert len(found.ranked) == len(NAMES) - 1


async def test_a_scope_is_counted_again_when_the_index_has_grown_to_more_than_twice_its_size(
    database: Database, tenant: TenantId, leg: DenseLeg, notes: Notes
) -> None:
    await store(database, tenant, [prepared(name, f"parcel number {name}") for name in NAMES[:30]])
    await leg(tenant, question("parcel"), 5)
    at_first = counted(notes)
    await store(database, tenant, [prepared(name, f"parcel number {name}") for name in NAMES[30:60]])
    await leg(tenant, question("parcel"), 5)
    at_twice = counted(notes)
    await store(database, tenant, [prepared(name, f"parcel number {name}") for name in NAMES[60:]])
    found = await leg(tenant, question("parcel"), 100)

    assert (at_first, at_twice, counted(notes)) == (1, 0, 1)
    assert len(found.ranked) == len(NAMES)


async def test_what_was_as_the_last_time_is_asked_for_in_one_message_with_the_state_of_the_index(
    database: Database, filled: TenantId, leg: DenseLeg, notes: Notes
) -> None:
    lexical = LexicalLeg(NotingDatabase(database, notes))
    for asked_leg in (leg, lexical):
        await asked_leg(filled, question("parcel"), 5)
    notes.take("")
    waits = []

    for asked_leg in (leg, lexical):
        await asked_leg(filled, question("number"), 5)
        waits.append(notes.messages)
        notes.take("")

    assert waits == [1, 2]  # the words' candidates are looked up in a second one


async def test_documents_that_are_gone_from_a_remembered_scope_leave_no_gap(
    filled: TenantId, leg: DenseLeg, owner: psycopg.Connection
) -> None:
    await leg(filled, question("parcel"), 5)
    owner.execute(
        "UPDATE documents SET valid_to = '2026-06-01' WHERE tenant_id = %s AND external_id > 'note-5'", (filled,)
    )

    found = await leg(filled, question("parcel"), 60)

    [[left]] = owner.execute("SELECT count(*) FROM documents WHERE valid_to IS NULL AND tenant_id = %s", (filled,))
    assert 0 < left < 60
    assert len(found.ranked) == left


@pytest.mark.parametrize(("last", "sifted"), [("note-9", True), ("note-2", False)])
async def test_all_vectors_are_compared_first_only_where_many_are_in_scope(
    database: Database, tenant: TenantId, notes: Notes, monkeypatch: pytest.MonkeyPatch, last: str, *, sifted: bool
) -> None:
    monkeypatch.setattr(dense, "FEW", 60)
    await fill(database, tenant)
    leg = DenseLeg(NotingDatabase(database, notes), embedders(), exact_below=10_000)

    found = await leg(tenant, question("parcel", scope(Leaf("external_id", "lte", last))), 10)

    [statement] = notes.take("vector")
    assert ("candidates" in statement.parameters) is sifted
    assert len(found.ranked) == 10


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
    nearest: Leg = DenseLeg(database, embedders(), exact_below=10_000)
    if slow:
        nearest = Slow(nearest, database)
    ranking = Ranking(rerank_top=50, rerank_deadline_s=3, rerank_weight=1, fused_weight=1)
    return Retriever(database, dense=nearest, lexical=LexicalLeg(database), reranker=FakeReranker(), ranking=ranking)
