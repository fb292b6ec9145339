"""Chunks that are numbered anew: nothing is lost or mixed up, whatever else goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from rag.protocols import Leg, Ordinals
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Ranking, Retriever
from rag.store import compaction
from rag.store.compaction import compact_if_due, numbering, renumber
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.generations import drop_index
from rag.store.neighbours import graph_if_large
from rag.store.writing import PreparedDocument
from rag.values import LegResult, Question, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder, FakeReranker, embedders
from tests.integration.corpus import ids_of, prepared, question, store
from tests.integration.indexes import OtherEmbedder, begin, current, ids, ingest, legs_of, reindex, rows
from tests.integration.reading import Legs, counts, delete
from tests.integration.stored import Counters, Stored

DOCUMENTS = 40
SEARCHES = 1000
ASKERS = 3  # of the pool's four connections


async def number_anew(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as tx:
        await renumber(tx)


async def waste_ordinals(database: Database, tenant: TenantId, number: int) -> None:
    """Let the tenant's next ordinal be as if so many chunks had come and gone."""
    async with database.tenant(tenant) as tx:
        await tx.run("give_ordinals", added=number)


def text_of(n: int) -> str:
    return f"The zebra of paddock{n} eats at gate{n} and sleeps."


def document_of(n: int) -> PreparedDocument:
    return prepared(f"doc-{n}", text_of(n), f"Another paddock{n} sentence.")


async def fill(database: Database, tenant: TenantId) -> None:
    """One document for each number below DOCUMENTS, its ordinals far from those of the one before."""
    for n in range(DOCUMENTS):
        await store(database, tenant, [document_of(n)])
        await waste_ordinals(database, tenant, 7)


def ordinals(owner: psycopg.Connection, tenant: TenantId) -> list[tuple[object, ...]]:
    query = (
        "SELECT ord, external_id, position FROM chunks JOIN documents USING (tenant_id, document_id)"
        " WHERE tenant_id = %s ORDER BY ord"
    )
    return owner.execute(query, (tenant,)).fetchall()


def retriever_of(database: Database, dense: Leg | None = None) -> Retriever:
    ranking = Ranking(rerank_top=50, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0)
    dense = dense or DenseLeg(database, embedders(), exact_below=10_000)
    return Retriever(database, dense=dense, lexical=LexicalLeg(database), reranker=FakeReranker(), ranking=ranking)


async def asked(retriever: Retriever, tenant: TenantId, text: str) -> list[str]:
    found = await retriever.retrieve(tenant, replace(question(text), rerank=False))
    return [hit.chunk.external_id for hit in found.hits]


@pytest.mark.parametrize("moved", [3, compaction.MOVED_ROWS])
async def test_chunks_are_numbered_from_zero_in_their_order_and_all_else_stays_as_it_was(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, legs: Legs,
    moved: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(compaction, "MOVED_ROWS", moved)
    await fill(database, tenant)
    await delete(database, tenant, "doc-3")
    order, stored = ordinals(owner, tenant), Stored.of(owner, tenant)
    found = await legs.find(tenant, "zebra")

    await number_anew(database, tenant)

    assert ordinals(owner, tenant) == [(n, *place) for n, (_, *place) in enumerate(order)]
    assert Stored.of(owner, tenant) == stored
    assert Counters.told(owner, tenant) == Counters.counted(owner, tenant) == Counters(78, 0)
    assert await legs.find(tenant, "zebra") == found
    async with database.tenant(tenant) as tx:
        assert (await numbering(tx)).next_ord == 78
    await store(database, tenant, [prepared("late", "A late zebra.")])
    assert ordinals(owner, tenant)[-1] == (78, "late", 0)


async def test_it_is_due_when_most_ordinals_are_of_chunks_that_are_gone(database: Database, tenant: TenantId) -> None:
    await fill(database, tenant)

    async with database.tenant(tenant) as tx:
        early = await compact_if_due(tx), (await numbering(tx)).times  # its blocks are small, its ordinals are few
    await waste_ordinals(database, tenant, compaction.SPARE_ORDS)
    async with database.tenant(tenant) as tx:
        late = await compact_if_due(tx), (await numbering(tx)).times
        again, next_ord = await compact_if_due(tx), (await numbering(tx)).next_ord

    assert (early, late, again) == ((True, 0), (True, 1), False)
    assert next_ord == 2 * DOCUMENTS


async def test_a_large_tenant_of_no_more_ordinals_than_a_search_bears_is_left_alone() -> None:
    assert not compaction.Numbering(next_ord=100_000, alive=0, times=0).is_sparse
    assert not compaction.Numbering(next_ord=8_000_000, alive=1_000_000, times=0).is_sparse
    assert compaction.Numbering(next_ord=8_000_001, alive=1_000_000, times=0).is_sparse


async def test_a_tenant_without_chunks_begins_at_zero_again(database: Database, tenant: TenantId, legs: Legs) -> None:
    await store(database, tenant, [prepared("one", "A zebra.")])
    await delete(database, tenant, "one")

    await number_anew(database, tenant)

    async with database.tenant(tenant) as tx:
        assert (await numbering(tx)).next_ord == 0
    assert await legs.find(tenant, "zebra") == (set(), set())


async def test_other_tenants_keep_their_ordinals(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    await fill(database, tenant)
    await fill(database, other)
    before = ordinals(owner, tenant)

    await number_anew(database, other)

    assert ordinals(owner, tenant) == before


async def test_both_indexes_of_a_tenant_are_numbered_together_while_the_next_one_is_built(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    texts = {f"{n}.md": f"A zebra of number {n}." for n in range(6)}
    await ingest(database, tenant, texts)
    await waste_ordinals(database, tenant, 50)

    async def meanwhile() -> None:
        await ingest(database, tenant, {"0.md": "A zebra that is new."})
        await number_anew(database, tenant)

    building = await begin(database, tenant, OtherEmbedder(meanwhile))
    await building.catch_up()
    await number_anew(database, tenant)
    before = await ids(database, tenant)
    await building.switch()

    assert before == await ids(database, tenant) == sorted(texts)
    assert rows(owner, tenant, "embeddings") == {1: 6, 2: 6}
    assert [row[0] for row in ordinals(owner, tenant)] == list(range(12))
    assert (await current(database, tenant)).generation == 2
    await drop_index(database, tenant, 1)
    await number_anew(database, tenant)
    assert await ids(database, tenant) == sorted(texts)
    assert [row[0] for row in ordinals(owner, tenant)] == list(range(6))


async def test_a_graph_is_left_and_filled_again(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await fill(database, tenant)
    await graph_if_large(database, tenant, above=10)
    leg = DenseLeg(database, embedders(), exact_below=0)
    before = await leg(tenant, question("zebra paddock7"), 10)
    graph = "SELECT count(*) FROM neighbours WHERE tenant_id = %s"

    await number_anew(database, tenant)
    left = owner.execute(graph, (tenant,)).fetchone(), await leg(tenant, question("zebra paddock7"), 10)
    filled = await graph_if_large(database, tenant, above=10)
    after = await leg(tenant, question("zebra paddock7"), 10)

    assert owner.execute("SELECT count(*) FROM upkeep WHERE tenant_id = %s", (tenant,)).fetchone() == (1,)
    assert (left[0], filled) == ((2,), True)  # of the document whose numbers are what they were
    assert before.ranked == left[1].ranked == after.ranked
    assert owner.execute(graph, (tenant,)).fetchone() == (2 * DOCUMENTS,)
    assert after.index_version > before.index_version  # what is known of how to search it is known no more


async def test_a_graph_that_is_filled_again_is_searched_by_nobody_who_knew_it_full(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await fill(database, tenant)
    await graph_if_large(database, tenant, above=10)
    owner.execute("ANALYZE neighbours")
    leg = DenseLeg(database, embedders(), exact_below=0)
    asked = question(text_of(DOCUMENTS - 1))
    before = await leg(tenant, asked, 5)

    await number_anew(database, tenant)
    async with database.tenant(tenant) as tx:
        assert await tx.run("add_neighbours", generation=1, limit=20) == 20
    meanwhile = await leg(tenant, asked, 5)

    assert meanwhile.ranked == before.ranked


async def test_two_who_find_the_same_tenant_sparse_number_it_once(database: Database, tenant: TenantId) -> None:
    await fill(database, tenant)
    await waste_ordinals(database, tenant, compaction.SPARE_ORDS)

    async def look() -> bool:
        async with database.tenant(tenant) as tx:
            return await compact_if_due(tx)

    async with database.tenant(tenant) as tx:
        await compaction.lock(tx)
        looks = [asyncio.create_task(look()) for _ in range(2)]
        await asyncio.sleep(0.3)  # both have seen it, and wait
    found = await asyncio.gather(*looks)

    async with database.tenant(tenant) as tx:
        assert (await numbering(tx)).times == 1
    assert sorted(found) == [False, True]


async def test_an_index_that_is_switched_to_is_looked_after_once_it_is_asked(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, {"1.md": "A zebra."})
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()
    owner.execute("DELETE FROM upkeep WHERE tenant_id = %s", (tenant,))

    await building.switch()

    assert owner.execute("SELECT count(*) FROM upkeep WHERE tenant_id = %s", (tenant,)).fetchone() == (1,)


class RenumberingLeg:
    """The dense leg, before whose first search the chunks are numbered anew."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leg = DenseLeg(database, embedders(), exact_below=10_000)
        self.within: list[list[int]] = []

    async def __call__(
        self, tenant_id: TenantId, asked: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        assert within is not None
        self.within.append(within.tolist())
        if len(self.within) == 1:
            await number_anew(self._database, tenant_id)
        return await self._leg(tenant_id, asked, depth, within=within)


async def test_a_quoted_phrase_is_looked_for_again_when_its_ordinals_are_others_by_now(
    database: Database, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared("gone", "Nothing.")])
    await store(database, tenant, [prepared("right", "The green zebra."), prepared("wrong", "A green boat.")])
    await delete(database, tenant, "gone")
    leg = RenumberingLeg(database)

    found = await asked(retriever_of(database, leg), tenant, '"green zebra"')

    assert found == ["right"]
    assert leg.within == [[1], [0]]  # 1 is the boat's now


@pytest.mark.quiet  # each search has its deadline
async def test_a_thousand_searches_are_right_while_chunks_come_and_go_and_are_numbered_anew(
    database: Database, tenant: TenantId
) -> None:
    await fill(database, tenant)
    retriever, over, times = retriever_of(database), asyncio.Event(), 0

    async def ask(first: int) -> None:
        for asking in range(first, SEARCHES, ASKERS):
            n = asking % DOCUMENTS
            if asking % 2:
                assert await asked(retriever, tenant, f'zebra "paddock{n} eats at gate{n}"') == [f"doc-{n}"], asking
            else:
                assert (await asked(retriever, tenant, text_of(n)))[0] == f"doc-{n}", asking

    async def change() -> None:
        nonlocal times
        while not over.is_set():
            number = times % 5
            await store(database, tenant, [prepared(f"passing-{number}", f"A passing boat {times}.")])
            await delete(database, tenant, f"passing-{(number + 1) % 5}") if times > 5 else None
            await waste_ordinals(database, tenant, 3)
            await number_anew(database, tenant)
            times += 1

    changing = asyncio.create_task(change())
    async with asyncio.TaskGroup() as askers:
        for first in range(ASKERS):
            askers.create_task(ask(first))
    over.set()
    await changing

    assert times > 20


async def test_a_deletion_that_waits_for_the_numbering_deletes_all_of_the_document(
    database: Database, tenant: TenantId, owner: psycopg.Connection, legs: Legs
) -> None:
    await fill(database, tenant)

    async with database.tenant(tenant) as tx:
        await renumber(tx)
        waiting = asyncio.create_task(delete(database, tenant, "doc-3"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
    await waiting

    assert counts(owner, tenant) == (39, 78, 78, 78)
    dense, lexical = await legs.find(tenant, text_of(3))
    assert not {UUID(content) for content in ids_of(document_of(3))} & (dense | lexical)


async def test_a_numbering_that_is_given_up_changes_nothing(
    database: Database, tenant: TenantId, owner: psycopg.Connection, legs: Legs
) -> None:
    await fill(database, tenant)
    order, found = ordinals(owner, tenant), await legs.find(tenant, "zebra")

    with suppress(ZeroDivisionError):
        async with database.tenant(tenant) as tx:
            await renumber(tx)
            raise ZeroDivisionError

    assert ordinals(owner, tenant) == order
    assert await legs.find(tenant, "zebra") == found
    async with database.tenant(tenant) as tx:
        await delete_document(tx, "doc-0")
    await number_anew(database, tenant)
    assert len(ordinals(owner, tenant)) == 78


async def test_an_index_gone_back_to_has_the_numbers_of_the_last_numbering(
    database: Database, tenant: TenantId
) -> None:
    texts = {f"{n}.md": f"A zebra of number {n}." for n in range(4)}
    await ingest(database, tenant, texts)
    await reindex(database, tenant, OtherEmbedder())
    await waste_ordinals(database, tenant, 9)

    await number_anew(database, tenant)

    below = legs_of(database, {**embedders(FakeEmbedder()), OtherEmbedder.name: OtherEmbedder()})
    assert [len(part) for part in await below.find(tenant, "zebra")] == [4, 4]
