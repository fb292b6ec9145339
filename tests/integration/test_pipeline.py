from __future__ import annotations

import numpy as np
import psycopg
import pytest

from ingest.pipeline import Pipeline, Result, Source
from rag.errors import UpstreamError
from rag.protocols import Vectors
from rag.store.documents import (
    list_documents,
)
from rag.store.engine import Database
from rag.store.indexes import index_state
from rag.values import TenantId, document_id
from tests.fakes import FakeEmbedder, embedders, parse_directly
from tests.integration.reading import NOBODY, Legs, chunk_ids, delete, document

FIRST = b"# Refunds\n\nA zebra refund takes five days.\n\n# Parcels\n\nA zebra parcel goes by train."
SECOND = b"# Refunds\n\nA walrus refund takes nine days."


@pytest.fixture
def embedder_calls() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def pipeline(database: Database, embedder_calls: FakeEmbedder) -> Pipeline:
    return Pipeline(database, embedders(embedder_calls), parse_directly)


async def ingest(
    pipeline: Pipeline, tenant: TenantId, data: bytes, name: str = "handbook.md", **facets: object
) -> Result:
    [result] = await pipeline.ingest(tenant, [Source(name, data, facets=facets)])
    return result


async def test_a_document_is_stored_with_the_text_its_chunks_are_spans_of(
    database: Database, pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    result = await ingest(pipeline, tenant, FIRST, doc_type="guide", tags=("eu",))

    stored = await document(database, tenant)
    spans = owner.execute("SELECT char_start, char_end, text FROM chunks WHERE tenant_id = %s", (tenant,)).fetchall()
    assert (result.state, result.chunks) == ("done", len(spans))
    assert (stored.title, stored.doc_type, stored.tags, stored.chunks) == ("Refunds", "guide", ["eu"], len(spans))
    assert stored.text is not None
    assert all(stored.text[start:end] == text for start, end, text in spans)


async def test_the_same_content_again_does_nothing(
    database: Database, pipeline: Pipeline, embedder_calls: FakeEmbedder, tenant: TenantId
) -> None:
    await ingest(pipeline, tenant, FIRST)
    before, embedded = await document(database, tenant), len(embedder_calls.embedded)
    async with database.tenant(tenant) as tx:
        version = await index_state(tx)

    result = await ingest(pipeline, tenant, FIRST)

    assert result == Result("handbook.md", "unchanged")
    assert await document(database, tenant) == before
    assert len(embedder_calls.embedded) == embedded
    async with database.tenant(tenant) as tx:
        assert await index_state(tx) == version


async def test_the_same_content_with_other_facets_is_a_change(
    database: Database, pipeline: Pipeline, tenant: TenantId
) -> None:
    await ingest(pipeline, tenant, FIRST, acl=("hr",))

    result = await ingest(pipeline, tenant, FIRST, acl=())

    assert result.state == "done"
    assert (await document(database, tenant)).acl == []


async def test_changed_content_takes_the_place_of_the_old_in_both_legs(
    database: Database, pipeline: Pipeline, legs: Legs, tenant: TenantId
) -> None:
    await ingest(pipeline, tenant, FIRST)
    old = await legs.find(tenant, "zebra")

    await ingest(pipeline, tenant, SECOND)

    dense, lexical = await legs.find(tenant, "walrus")
    assert dense == lexical
    assert len(dense) == 1
    assert not dense & old[0]
    assert (await legs.find(tenant, "zebra"))[1] == set()


async def test_a_change_keeps_the_id_and_the_moment_of_creation(
    database: Database, pipeline: Pipeline, tenant: TenantId
) -> None:
    await ingest(pipeline, tenant, FIRST)
    before = await document(database, tenant)

    await ingest(pipeline, tenant, SECOND)

    after = await document(database, tenant)
    assert (after.document_id, after.created_at) == (before.document_id, before.created_at)
    assert after.document_id == document_id(tenant, "handbook.md")
    assert after.updated_at > before.updated_at


async def test_a_failing_embedder_leaves_the_old_version_whole(
    database: Database, pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(pipeline, tenant, FIRST)
    before, ids = await document(database, tenant), chunk_ids(owner, tenant)

    with pytest.raises(UpstreamError):
        await ingest(Pipeline(database, embedders(FakeEmbedder(UpstreamError())), parse_directly), tenant, SECOND)

    assert await document(database, tenant) == before
    assert chunk_ids(owner, tenant) == ids


async def test_ids_are_the_same_after_deleting_and_uploading_again(
    database: Database, pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(pipeline, tenant, FIRST)
    ids = chunk_ids(owner, tenant)
    await ingest(pipeline, tenant, FIRST, doc_type="guide")
    after_change = chunk_ids(owner, tenant)
    await delete(database, tenant, "handbook.md")

    await ingest(pipeline, tenant, FIRST)

    assert ids == after_change == chunk_ids(owner, tenant)


async def test_equal_paragraphs_in_one_document_all_stay(
    pipeline: Pipeline, legs: Legs, tenant: TenantId, owner: psycopg.Connection
) -> None:
    paragraph = "A zebra parcel must be weighed before it is sent on its long way. " * 12
    data = "\n\n".join(f"# Part {n}\n\n{paragraph}" for n in range(3)).encode()

    result = await ingest(pipeline, tenant, data)

    texts = owner.execute("SELECT text, count(*) FROM chunks WHERE tenant_id = %s GROUP BY 1", (tenant,)).fetchall()
    assert result.chunks == sum(number for _, number in texts) >= 3
    assert max(number for _, number in texts) == 3
    assert [len(found) for found in await legs.find(tenant, "zebra")] == [result.chunks, result.chunks]


async def test_a_document_that_cannot_be_read_holds_up_no_other(
    database: Database, pipeline: Pipeline, tenant: TenantId
) -> None:
    sources = [Source("good.md", FIRST), Source("bad.md", b"\xff\xfe"), Source("odd.xyz", b"?"), Source("2.md", SECOND)]

    results = await pipeline.ingest(tenant, sources)

    assert [(r.external_id, r.state, r.code) for r in results] == [
        ("good.md", "done", ""),
        ("bad.md", "failed", "invalid_input"),
        ("odd.xyz", "failed", "unsupported_format"),
        ("2.md", "done", ""),
    ]
    async with database.tenant(tenant) as tx:
        assert [d.external_id for d in await list_documents(tx, NOBODY, after="", limit=9)] == ["2.md", "good.md"]


async def test_a_batch_in_which_nothing_can_be_read_is_reported(pipeline: Pipeline, tenant: TenantId) -> None:
    assert await pipeline.ingest(tenant, []) == []
    assert (await ingest(pipeline, tenant, b"")).state == "failed"


async def test_vectors_go_to_the_chunks_whose_texts_they_are_of(
    pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await pipeline.ingest(tenant, [Source("a.md", FIRST), Source("b.md", SECOND), Source("c.md", b"short")])

    rows = owner.execute(
        "SELECT c.indexed, e.embedding::text FROM chunks c JOIN embeddings e USING (tenant_id, ord)"
        " WHERE tenant_id = %s",
        (tenant,),
    ).fetchall()
    wanted = await FakeEmbedder().embed_documents([indexed for indexed, _ in rows])
    assert np.allclose(np.array([_vector(text) for _, text in rows]), wanted, atol=1e-3)


def _vector(text: str) -> Vectors:
    return np.array(text.strip("[]").split(","), dtype=np.float32)


async def test_a_document_that_cannot_be_written_holds_up_no_other_of_its_batch(
    database: Database, tenant: TenantId, pipeline: Pipeline, owner: psycopg.Connection
) -> None:
    texts = {"one.md": b"Parcels go by train.", "two.md": b"This is unspeakable.", "three.md": b"Fees are kept."}
    sources = [Source(name, text, "text/markdown") for name, text in texts.items()]

    owner.execute("ALTER TABLE documents ADD CONSTRAINT unspeakable CHECK (external_id <> 'two.md') NOT VALID")
    try:
        results = await pipeline.ingest(tenant, sources)
    finally:
        owner.execute("ALTER TABLE documents DROP CONSTRAINT unspeakable")

    assert [(r.external_id, r.state, r.code) for r in results] == [
        ("one.md", "done", ""),
        ("two.md", "failed", "store_error"),
        ("three.md", "done", ""),
    ]
    async with database.tenant(tenant) as tx:
        stored = await list_documents(tx, frozenset(), after="", limit=10)
    assert [one.external_id for one in stored] == ["one.md", "three.md"]
