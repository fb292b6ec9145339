from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg
import pytest

from ingest.pipeline import Pipeline, Source
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.store.search import MAX_PLACES
from rag.values import Chunk, Facets, Question, TenantId
from tests.fakes import FakeEmbedder, FakeReranker, embedders, parse_directly
from tests.integration.corpus import prepared, question, scope, store
from tests.integration.reading import delete

COPY = "Returned parcels are free of charge."


@pytest.fixture
def retriever(database: Database) -> Retriever:
    return Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=Ranking(rerank_top=50, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0),
    )


async def found(retriever: Retriever, tenant: TenantId, asked: Question) -> list[Chunk]:
    return [hit.chunk for hit in (await retriever.retrieve(tenant, asked)).hits]


def places(chunk: Chunk) -> list[str]:
    return [chunk.external_id, *(place.external_id for place in chunk.also_in)]


async def ingest(database: Database, tenant: TenantId, embedder: FakeEmbedder, texts: dict[str, str]) -> None:
    sources = [Source(name, text.encode(), "text/markdown") for name, text in texts.items()]
    results = await Pipeline(database, embedders(embedder), parse_directly).ingest(tenant, sources)
    assert {result.state for result in results} == {"done"}


async def test_equal_chunks_are_embedded_once_in_a_batch_and_ever_after(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    embedder = FakeEmbedder()

    await ingest(database, tenant, embedder, {"a.md": COPY, "b.md": COPY})
    await ingest(database, tenant, embedder, {"c.md": COPY, "d.md": "Fees are due in May."})

    assert embedder.embedded == [COPY, "Fees are due in May."]
    vectors = owner.execute("SELECT embedding::text FROM embeddings WHERE tenant_id = %s", (tenant,)).fetchall()
    assert sorted((vectors.count(vector) for vector in set(vectors)), reverse=True) == [3, 1]


async def test_another_tenant_embeds_its_own(
    database: Database, tenant: TenantId, make_tenant: object, tenant_names: object
) -> None:
    embedder = FakeEmbedder()
    other = await make_tenant()  # type: ignore[operator]

    await ingest(database, tenant, embedder, {"a.md": COPY})
    await ingest(database, other, embedder, {"a.md": COPY})

    assert embedder.embedded == [COPY, COPY]


async def test_equal_chunks_are_one_hit_that_names_every_place(
    database: Database, tenant: TenantId, retriever: Retriever
) -> None:
    await store(database, tenant, [prepared(name, COPY) for name in ("b.md", "c.md", "a.md")])
    await store(database, tenant, [prepared("other.md", "Parcels go by train.")])

    chunks = await found(retriever, tenant, question("parcels"))

    assert sorted(map(places, chunks)) == [["a.md", "b.md", "c.md"], ["other.md"]]


async def test_a_place_that_the_asker_may_not_see_is_not_named(
    database: Database, tenant: TenantId, retriever: Retriever
) -> None:
    board = Facets(acl=("board",))
    past = Facets(valid_to=datetime(2020, 1, 1, tzinfo=UTC))
    await store(
        database,
        tenant,
        [prepared("a.md", COPY, facets=board), prepared("b.md", COPY, facets=past), prepared("c.md", COPY)],
    )

    [as_anyone] = await found(retriever, tenant, question("parcels"))
    [as_board] = await found(retriever, tenant, question("parcels", scope(groups=("board",))))

    assert places(as_anyone) == ["c.md"]
    assert places(as_board) == ["a.md", "c.md"]


async def test_a_deleted_place_is_not_named_and_the_text_is_found_in_the_others(
    database: Database, tenant: TenantId, retriever: Retriever
) -> None:
    await store(database, tenant, [prepared("a.md", COPY), prepared("b.md", COPY)])

    await delete(database, tenant, "a.md")

    assert [places(chunk) for chunk in await found(retriever, tenant, question("parcels"))] == [["b.md"]]


@pytest.mark.parametrize("order", [1, -1])
async def test_hundreds_of_copies_crowd_out_no_other_text(
    database: Database, tenant: TenantId, retriever: Retriever, order: int
) -> None:
    copies = [prepared(f"copy-{n:03}.md", "parcels parcels") for n in range(300)]
    others = [prepared(f"other-{n}.md", f"parcels and matter {n}") for n in range(40)]
    documents = [*copies, *others][::order]
    await store(database, tenant, documents)

    chunks = await found(retriever, tenant, question("parcels", top_k=100))

    assert len(chunks) == 41
    [named] = [places(chunk) for chunk in chunks if chunk.text == "parcels parcels"]
    assert named == [f"copy-{n:03}.md" for n in range(MAX_PLACES)]


async def test_both_legs_count_different_texts_only(database: Database, tenant: TenantId) -> None:
    copies = [prepared(f"copy-{n:03}.md", "parcels parcels") for n in range(300)]
    others = [prepared(f"other-{n}.md", f"parcels and matter {n}") for n in range(60)]
    await store(database, tenant, [*copies, *others])
    legs: Sequence[DenseLeg | LexicalLeg] = (
        DenseLeg(database, embedders(), exact_below=10_000),
        DenseLeg(database, embedders(), exact_below=0),
        LexicalLeg(database),
    )

    for leg in legs:
        ranked = (await leg(tenant, question("parcels"), 50)).ranked
        assert len({one.content for one in ranked}) == len(ranked) == 50
        assert [one.rank for one in ranked] == list(range(1, 51))
