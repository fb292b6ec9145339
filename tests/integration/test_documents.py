from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psycopg
import pytest

from ingest.pipeline import Pipeline, Result, Source
from rag.errors import NotFound, StoreError, UpstreamError
from rag.protocols import Vectors
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.store.compaction import compact
from rag.store.documents import (
    PreparedDocument,
    StoredDocument,
    delete_document,
    get_document,
    list_documents,
    replace_documents,
)
from rag.store.engine import Database, TenantTx
from rag.store.search import live_in_scope, scoped_ords, tenant_state
from rag.values import ChunkId, Facets, TenantId, chunk_id, document_id, tenant_id
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder
from tests.integration.corpus import prepared, question, scope, store

IN_ONE_STATEMENT = (
    "SELECT d.text, string_agg(c.text, E'\\n' ORDER BY c.position), d.chunk_count, count(e.ord)::int"
    "  FROM documents d"
    "  JOIN chunks c USING (tenant_id, document_id)"
    "  LEFT JOIN embeddings e USING (tenant_id, ord)"
    " GROUP BY d.text, d.chunk_count"
)
NOBODY = frozenset[str]()
FIRST = b"# Refunds\n\nA zebra refund takes five days.\n\n# Parcels\n\nA zebra parcel goes by train."
SECOND = b"# Refunds\n\nA walrus refund takes nine days."


@dataclass(frozen=True)
class Legs:
    """What each leg finds: the texts of the chunks."""

    dense: DenseLeg
    lexical: LexicalLeg

    async def find(self, tenant: TenantId, query: str) -> tuple[set[ChunkId], set[ChunkId]]:
        dense = await self.dense(tenant, question(query), 50)
        lexical = await self.lexical(tenant, question(query), 50)
        return {r.chunk_id for r in dense.ranked}, {r.chunk_id for r in lexical.ranked}


@pytest.fixture
def embedder_calls() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def pipeline(database: Database, embedder_calls: FakeEmbedder) -> Pipeline:
    return Pipeline(database, embedder_calls)


@pytest.fixture
def legs(database: Database) -> Legs:
    return Legs(DenseLeg(database, FakeEmbedder(), exact_below=10_000), LexicalLeg(database))


async def ingest(
    pipeline: Pipeline, tenant: TenantId, data: bytes, name: str = "handbook.md", **facets: object
) -> Result:
    [result] = await pipeline.ingest(tenant, [Source(name, data, facets=facets)])
    return result


async def document(database: Database, tenant: TenantId, name: str = "handbook.md") -> StoredDocument:
    async with database.tenant(tenant) as tx:
        return await get_document(tx, name, NOBODY)


def chunk_ids(owner: psycopg.Connection, tenant: TenantId) -> list[tuple[object, ...]]:
    return owner.execute("SELECT position, chunk_id FROM chunks WHERE tenant_id = %s ORDER BY 1", (tenant,)).fetchall()


def counts(owner: psycopg.Connection, tenant: TenantId) -> tuple[int, ...]:
    """Rows of documents, chunks and embeddings, and the sum of what documents say of their chunks."""
    [row] = owner.execute(
        "SELECT (SELECT count(*) FROM documents WHERE tenant_id = %(t)s),"
        "       (SELECT count(*) FROM chunks WHERE tenant_id = %(t)s),"
        "       (SELECT count(*) FROM embeddings WHERE tenant_id = %(t)s),"
        "       (SELECT coalesce(sum(chunk_count), 0)::int FROM documents WHERE tenant_id = %(t)s)",
        {"t": tenant},
    ).fetchall()
    return tuple(row)


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
        version = await tenant_state(tx)

    result = await ingest(pipeline, tenant, FIRST)

    assert result == Result("handbook.md", "unchanged")
    assert await document(database, tenant) == before
    assert len(embedder_calls.embedded) == embedded
    async with database.tenant(tenant) as tx:
        assert await tenant_state(tx) == version


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


async def test_a_shorter_version_leaves_no_tail_in_any_table(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", *(f"zebra {n}" for n in range(30))), prepared("two", "other")])

    await store(database, tenant, [prepared("one", "walrus")])
    async with database.tenant(tenant) as tx:
        await compact(tx)

    assert counts(owner, tenant) == (2, 2, 2, 2)
    [posted] = owner.execute("SELECT sum(n)::int FROM postings WHERE tenant_id = %s", (tenant,)).fetchall()
    assert posted == (2,)  # walrus and other


async def test_others_see_the_old_version_until_the_new_one_is_committed(
    database: Database, legs: Legs, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared("one", "zebra", "zebra again")])
    old = await legs.find(tenant, "zebra")

    async with database.tenant(tenant) as tx:
        await replace_documents(tx, [prepared("one", "walrus")])
        assert await legs.find(tenant, "zebra") == old
        assert (await legs.find(tenant, "walrus"))[1] == set()
        assert (await document(database, tenant, "one")).text == "zebra\nzebra again"

    assert (await legs.find(tenant, "zebra"))[1] == set()
    assert [len(found) for found in await legs.find(tenant, "walrus")] == [1, 1]


async def test_a_reader_sees_the_old_or_the_new_version_and_never_a_mix(database: Database, tenant: TenantId) -> None:
    versions = [prepared("one", *[f"version{n}"] * (1 + n % 3)) for n in range(40)]
    await store(database, tenant, versions[:1])
    writing = asyncio.create_task(_write_each(database, tenant, versions))
    seen: set[str] = set()

    while not writing.done():
        async with database.bare() as connection:
            await connection.execute("SELECT set_config('app.tenant_id', %s, true)", (str(tenant),))
            [(whole, parts, told, embedded)] = await (await connection.execute(IN_ONE_STATEMENT)).fetchall()
        assert whole == parts
        assert told == embedded == len(parts.split("\n"))
        seen.add(whole)
    await writing

    assert len(seen) > 5


async def test_searches_while_documents_come_and_go_find_the_ones_that_stay(
    database: Database, legs: Legs, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared("stays", "zebra stays"), prepared("one", "zebra")])
    stays = document_id(tenant, "stays")
    writing = asyncio.create_task(
        _write_each(database, tenant, [prepared("one", *["zebra comes"] * (1 + n % 3)) for n in range(100)])
    )

    found = []
    while not writing.done():
        found.append(await legs.find(tenant, "zebra stays"))
    await writing

    expected = chunk_id(stays, 0, "zebra stays")
    assert len(found) > 10
    assert all(expected in dense and expected in lexical for dense, lexical in found)


async def _write_each(database: Database, tenant: TenantId, versions: Sequence[PreparedDocument]) -> None:
    for version in versions:
        await store(database, tenant, [version])


async def test_a_failing_embedder_leaves_the_old_version_whole(
    database: Database, pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(pipeline, tenant, FIRST)
    before, ids = await document(database, tenant), chunk_ids(owner, tenant)

    with pytest.raises(UpstreamError):
        await ingest(Pipeline(database, FakeEmbedder(UpstreamError())), tenant, SECOND)

    assert await document(database, tenant) == before
    assert chunk_ids(owner, tenant) == ids


async def test_a_write_that_fails_at_its_last_row_leaves_the_old_version_whole(
    database: Database, legs: Legs, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", "zebra", "zebra again")])
    before, state = await document(database, tenant, "one"), counts(owner, tenant)
    broken = prepared("two", "walrus", "NUL \0 in a text")

    with pytest.raises((StoreError, ValueError)):
        await store(database, tenant, [prepared("one", "walrus"), broken])

    assert await document(database, tenant, "one") == before
    assert counts(owner, tenant) == state == (1, 2, 2, 2)
    assert [len(found) for found in await legs.find(tenant, "zebra")] == [2, 2]


async def test_deleting_removes_a_document_from_both_legs_when_it_commits(
    database: Database, legs: Legs, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", "zebra"), prepared("two", "zebra too")])
    both = await legs.find(tenant, "zebra")

    async with database.tenant(tenant) as tx:
        await delete_document(tx, "one")
        assert await legs.find(tenant, "zebra") == both

    dense, lexical = await legs.find(tenant, "zebra")
    assert dense == lexical
    assert len(dense) == 1
    assert counts(owner, tenant) == (1, 1, 1, 1)
    with pytest.raises(NotFound, match="one"):
        await document(database, tenant, "one")


async def test_deleting_what_is_not_there_is_not_found_and_changes_nothing(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as tx:
        before = await tenant_state(tx)

    with pytest.raises(NotFound, match="absent"):
        await _delete(database, tenant, "absent")

    async with database.tenant(tenant) as tx:
        assert await tenant_state(tx) == before


async def _delete(database: Database, tenant: TenantId, external_id: str) -> None:
    async with database.tenant(tenant) as tx:
        await delete_document(tx, external_id)


async def test_ids_are_the_same_after_deleting_and_uploading_again(
    database: Database, pipeline: Pipeline, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(pipeline, tenant, FIRST)
    ids = chunk_ids(owner, tenant)
    await ingest(pipeline, tenant, FIRST, doc_type="guide")
    after_change = chunk_ids(owner, tenant)
    await _delete(database, tenant, "handbook.md")

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


async def test_writing_for_an_unknown_tenant_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound, match="rag tenant create"):
        await store(database, tenant_id("nobody"), [prepared("one", "zebra")])


async def test_writers_of_one_tenant_never_share_an_ordinal(
    database: Database, tenant: TenantId, owner: psycopg.Connection, legs: Legs
) -> None:
    documents = [prepared(f"doc-{n}", f"zebra {n}", f"zebra {n} again") for n in range(20)]

    async with asyncio.TaskGroup() as tasks:
        for one in documents:
            tasks.create_task(store(database, tenant, [one]))

    async with database.tenant(tenant) as tx:
        ords = (await scoped_ords(tx, scope())).tolist()
        state = await tenant_state(tx)
    assert sorted(ords) == list(range(40))
    assert (state.next_ord, state.posted, state.dead, state.index_version) == (40, 40, 0, 20)
    assert [len(found) for found in await legs.find(tenant, "zebra")] == [40, 40]


async def test_the_same_external_id_is_another_document_in_another_tenant(
    database: Database, make_tenant: MakeTenant
) -> None:
    one, other = await make_tenant(), await make_tenant()

    await store(database, one, [prepared("same", "zebra")])
    await store(database, other, [prepared("same", "walrus")])

    assert (await document(database, one, "same")).text == "zebra"
    assert (await document(database, other, "same")).text == "walrus"


async def test_documents_are_listed_in_pages_for_those_who_may_see_them(database: Database, tenant: TenantId) -> None:
    facets = {"c": Facets(acl=("hr",))}
    await store(database, tenant, [prepared(name, "zebra", facets=facets.get(name)) for name in "edcba"])

    async with database.tenant(tenant) as tx:
        pages = [await _names(tx, after=after, groups=NOBODY) for after in ("", "b", "e")]
        as_member = await _names(tx, after="b", groups=frozenset({"hr"}))

    assert pages == [["a", "b"], ["d", "e"], []]
    assert as_member == ["c", "d"]


async def _names(tx: TenantTx, *, after: str, groups: frozenset[str]) -> list[str]:
    listed = await list_documents(tx, groups, after=after, limit=2)
    assert all(one.text is None and one.chunks == 1 for one in listed)
    return [one.external_id for one in listed]


async def test_a_closed_document_is_not_found_by_others(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared("closed", "zebra", facets=Facets(acl=("hr", "law")))])

    async with database.tenant(tenant) as tx:
        with pytest.raises(NotFound):
            await get_document(tx, "closed", frozenset({"sales"}))
        assert (await get_document(tx, "closed", frozenset({"law"}))).text == "zebra"


async def test_ordinals_of_deleted_chunks_are_not_given_again(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared("one", "zebra")])
    await _delete(database, tenant, "one")
    await store(database, tenant, [prepared("one", "zebra")])

    async with database.tenant(tenant) as tx:
        assert list(await live_in_scope(tx, scope(), [0, 1, 2])) == [1]
