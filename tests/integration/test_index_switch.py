from __future__ import annotations

import asyncio

import psycopg
import pytest

import rag.store.generations as generations
from ingest.reindex import Reindex
from rag.errors import Conflict, IndexMismatch
from rag.protocols import Ordinals
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.store.generations import drop_index
from rag.store.indexes import index_state
from rag.values import LegResult, Question, Ranked, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder
from tests.integration.corpus import question
from tests.integration.indexes import (
    HANDBOOK,
    LONG,
    OtherEmbedder,
    begin,
    both,
    by_name,
    current,
    ids,
    indexes,
    ingest,
    legs_of,
    recipe_of,
    reindex,
    retriever_of,
    rows,
)
from tests.integration.reading import Legs, delete


async def test_what_is_uploaded_after_the_build_is_brought_in_before_the_switch(
    database: Database, tenant: TenantId
) -> None:
    await ingest(database, tenant, HANDBOOK)
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()
    await ingest(database, tenant, {"late.md": "A zebra comes late."})

    async with database.tenant(tenant) as tx:
        switched_at_once = await generations.switch(tx, 2)
    await building.switch()

    assert not switched_at_once
    assert (await current(database, tenant)).generation == 2
    assert await ids(database, tenant) == sorted([*HANDBOOK, "late.md"])


async def test_going_back_without_changes_embeds_nothing(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, HANDBOOK)
    await reindex(database, tenant, OtherEmbedder())
    old, embedder = (await indexes(database, tenant)).below[-1], FakeEmbedder()

    await Reindex(database, tenant, old, embedder=embedder).switch()

    assert embedder.embedded == []
    assert await current(database, tenant) == old
    assert await ids(database, tenant) == sorted(HANDBOOK)


async def test_going_back_brings_in_what_changed_since(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)
    await reindex(database, tenant, OtherEmbedder())
    await ingest(database, tenant, {"fees.md": "# Fees\n\nA walrus fee is kept.", "new.md": "A walrus is new."}, both())
    await delete(database, tenant, "boats.md")
    old, embedder = (await indexes(database, tenant)).below[-1], FakeEmbedder()

    await Reindex(database, tenant, old, embedder=embedder).switch()

    assert sorted(embedder.embedded) == ["A walrus is new.", "Fees\nA walrus fee is kept."]
    assert (await current(database, tenant)).recipe == recipe_of(FakeEmbedder())
    assert await ids(database, tenant, "walrus") == ["fees.md", "new.md", "parcels.md", "refunds.md"]
    assert len((await legs_of(database).lexical(tenant, question("walrus"), 50)).ranked) == 2
    assert rows(owner, tenant, "embeddings") == {1: 4, 2: 4}


async def test_going_back_to_an_index_cut_otherwise_works_while_nothing_changed(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)
    await reindex(database, tenant, OtherEmbedder())
    owner.execute("UPDATE indexes SET chunker = 'older' WHERE tenant_id = %s AND generation = 1", (tenant,))
    old = (await indexes(database, tenant)).below[-1]

    await Reindex(database, tenant, old, embedder=FakeEmbedder()).switch()
    back = await current(database, tenant)
    await reindex(database, tenant, OtherEmbedder())
    await ingest(database, tenant, {"new.md": "A walrus is new."}, both())

    assert back == old
    with pytest.raises(IndexMismatch, match=r"index 1 .*lacks 1 documents"):
        await Reindex(database, tenant, old, embedder=FakeEmbedder()).switch()
    assert (await current(database, tenant)).generation == 2


@pytest.mark.usefixtures("small_batches")
async def test_dropping_the_old_index_leaves_the_current_one_alone(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)
    await reindex(database, tenant, OtherEmbedder())
    before = rows(owner, tenant, "postings")

    await drop_index(database, tenant, 1)

    assert rows(owner, tenant, "postings") == {2: before[2]}
    assert rows(owner, tenant, "chunks") == rows(owner, tenant, "embeddings") == {2: 4}
    assert rows(owner, tenant, "indexes") == {2: 1}
    held = "SELECT DISTINCT generations FROM documents WHERE tenant_id = %s"
    assert owner.execute(held, (tenant,)).fetchall() == [([2],)]
    assert await ids(database, tenant) == sorted(HANDBOOK)
    with pytest.raises(Conflict, match="index 2 is the one that is asked"):
        await drop_index(database, tenant, 2)


async def test_questions_while_the_index_is_switched_to_and_fro_see_wholly_one_or_the_other(
    database: Database, tenant: TenantId
) -> None:
    await ingest(database, tenant, HANDBOOK | {"long.md": LONG})
    old = await places(database, tenant)
    await reindex(database, tenant, OtherEmbedder())
    new = await places(database, tenant)

    async def switching() -> None:
        for n in range(60):
            async with database.tenant(tenant) as tx:
                assert await generations.switch(tx, 1 + n % 2)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(switching())
    seen = []
    while not task.done():
        seen += await asyncio.gather(places(database, tenant), places(database, tenant))
    await task

    assert old != new
    assert {len(found) for found in seen} == {len(old), len(new)}
    assert all(found in (old, new) for found in seen)


async def test_a_switch_between_the_two_legs_asks_both_again(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, HANDBOOK | {"long.md": LONG})
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()
    legs, asked = legs_of(database), asyncio.Event()

    async def dense(of: TenantId, what: Question, depth: int, *, within: Ordinals | None = None) -> LegResult:
        result = await legs.dense(of, what, depth, within=within)
        asked.set()
        return result

    async def lexical(of: TenantId, what: Question, depth: int, *, within: Ordinals | None = None) -> LegResult:
        await asked.wait()
        if (await current(database, of)).generation == 1:
            await building.switch()
        return await legs.lexical(of, what, depth, within=within)

    between = await places(database, tenant, retriever_of(database, legs=Legs(dense, lexical)))

    assert between == await places(database, tenant)


async def places(
    database: Database, tenant: TenantId, retriever: Retriever | None = None
) -> set[tuple[str, int, int, Ranked | None, Ranked | None]]:
    """Where the hits of a question stand, in the documents and in both legs."""
    found = await (retriever or retriever_of(database)).retrieve(tenant, question("zebra", top_k=100))
    return {(hit.chunk.external_id, hit.chunk.start, hit.chunk.end, hit.dense, hit.lexical) for hit in found.hits}


async def test_what_a_leg_remembers_of_an_index_does_not_outlive_a_switch(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, {**HANDBOOK, "long.md": LONG})
    used = legs_of(database)
    for _ in range(2):
        await used.find(tenant, "zebra")
    await ingest(database, tenant, {"wagen.md": "# Wagen\n\nDie Zebras ziehen den Wagen."}, lang="de")
    another_language = await used.find(tenant, "zebras ziehen")
    in_another_language = await legs_of(database).find(tenant, "zebras ziehen")

    await reindex(database, tenant, OtherEmbedder())
    switched = [await used.find(tenant, "zebra") for _ in range(2)]

    assert another_language == in_another_language
    assert switched == [await legs_of(database).find(tenant, "zebra")] * 2


async def test_other_tenants_are_left_alone(
    database: Database, tenant: TenantId, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    other = await make_tenant()
    await ingest(database, tenant, HANDBOOK)
    await ingest(database, other, HANDBOOK)
    async with database.tenant(other) as tx:
        before = await index_state(tx)

    await reindex(database, tenant, OtherEmbedder())
    await drop_index(database, tenant, 1)

    async with database.tenant(other) as tx:
        assert await index_state(tx) == before
    assert rows(owner, other, "chunks") == {1: 4}
    assert await ids(database, other) == sorted(HANDBOOK)


async def test_questions_and_uploads_say_the_same_of_an_embedder_that_is_not_here(
    database: Database, tenant: TenantId
) -> None:
    await ingest(database, tenant, HANDBOOK)
    here = by_name(OtherEmbedder())

    with pytest.raises(IndexMismatch) as asked:
        await legs_of(database, here).dense(tenant, question("zebra"), 5)
    with pytest.raises(IndexMismatch) as uploaded:
        await ingest(database, tenant, {"new.md": "A zebra."}, here)

    sentence = (
        "the tenant's index was made with embedder fake-embedder, and here is only other-embedder;"
        " name both in RAG_EMBEDDER, separated by a comma, until `rag reindex` has moved the tenant"
    )
    assert [str(asked.value), str(uploaded.value)] == [sentence, sentence]
