from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from sqlalchemy import text

from rag.errors import NotFound, RagError
from rag.protocols import Vectors
from rag.retrieval.dense import DenseLeg
from rag.store.documents import delete_document, get_document
from rag.store.engine import Compiled, Database
from rag.store.neighbours import graph_if_large
from rag.store.search import indexed, nearest
from rag.store.tenancy import create_tenant
from rag.store.writing import PreparedDocument
from rag.values import Facets, Filter, Leaf, Not, TenantId, tenant_id
from tests.fakes import embedders, unit_vector
from tests.integration.corpus import ids_of, prepared, question, scope, store

DEPTH = 50
ROWS = 1000
QUESTIONS = [f"q{n}" for n in range(20)]


@dataclass
class Rows:
    """A tenant's chunks as numpy sees them: one document each, so that each can be deleted alone."""

    tenant: TenantId
    documents: list[PreparedDocument]
    kinds: list[str]

    def __post_init__(self) -> None:
        self.ids = [ids_of(document)[0] for document in self.documents]
        self.vectors = halved(np.concatenate([document.vectors for document in self.documents]))

    def similarities(self, query: str, ids: list[str]) -> list[float]:
        by_id = dict(zip(self.ids, (self.vectors @ halved(unit_vector(query))).tolist(), strict=True))
        return [by_id[id_] for id_ in ids]

    def nearest(self, query: str, kept: set[int] | None = None) -> list[str]:
        """The ids of the nearest rows among the numbers *kept*, best first, every row compared."""
        order = np.argsort(-(self.vectors @ halved(unit_vector(query))), kind="stable").tolist()
        return [self.ids[n] for n in order if kept is None or n in kept][:DEPTH]


def halved(vectors: Vectors) -> Vectors:
    """In the precision that is stored."""
    return vectors.astype(np.float16).astype(np.float32)


def random_rows(tenant: TenantId, number: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((number, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kinds = rng.choice(["guide", "note", "rare"], number, p=[0.75, 0.23, 0.02]).tolist()
    documents = [
        prepared(f"doc-{n}", f"text {n}", facets=Facets(doc_type=kind, metadata={"n": n}), vectors=vectors[n : n + 1])
        for n, kind in enumerate(kinds)
    ]
    return Rows(tenant, documents, kinds)


@pytest_asyncio.fixture(scope="module")
async def rows(database: Database, owner: psycopg.Connection) -> Rows:
    rows = random_rows(await create_tenant(database, "large"), ROWS, seed=1)
    await store(database, rows.tenant, rows.documents)
    await graph_if_large(database, rows.tenant, above=0)
    owner.execute("ANALYZE neighbours")  # the index is asked only where a partition's size is known
    return rows


@pytest.fixture
def exact(database: Database) -> DenseLeg:
    return DenseLeg(database, embedders(), exact_below=10_000)


@pytest.fixture
def by_index(database: Database) -> DenseLeg:
    return DenseLeg(database, embedders(), exact_below=0)


async def search(leg: DenseLeg, tenant: TenantId, query: str, filter_: Filter | None = None) -> list[str]:
    found = await leg(tenant, question(query, scope(filter_)), DEPTH)
    assert [ranked.rank for ranked in found.ranked] == list(range(1, len(found.ranked) + 1))
    return [str(ranked.content) for ranked in found.ranked]


def recall(found: list[str], nearest: list[str]) -> float:
    return len(set(found) & set(nearest)) / len(nearest)


def random_filters(rows: Rows, seed: int) -> Iterator[tuple[Filter | None, set[int]]]:
    """Filters, each with the numbers of the rows it keeps."""
    rng = np.random.default_rng(seed)
    low, some = int(rng.integers(ROWS)), rng.integers(ROWS, size=70).tolist()
    kind = str(rng.choice(["guide", "note", "rare", "none"]))
    of_kind = {n for n, found in enumerate(rows.kinds) if found == kind}
    yield None, set(range(ROWS))
    yield Leaf("doc_type", "eq", kind), of_kind
    yield Not(Leaf("doc_type", "eq", kind)), set(range(ROWS)) - of_kind
    yield Leaf("metadata.n", "gte", low), set(range(low, ROWS))
    yield Leaf("external_id", "in", tuple(f"doc-{n}" for n in some)), set(some)


@pytest.mark.parametrize("exact_below", [0, 10_000])
async def test_rows_are_as_many_as_match_and_the_nearest_under_any_filter(
    database: Database, rows: Rows, exact_below: int
) -> None:
    leg = DenseLeg(database, embedders(), exact_below=exact_below)
    for seed, query in enumerate(QUESTIONS):
        for filter_, kept in random_filters(rows, seed):
            found = await search(leg, rows.tenant, query, filter_)

            assert len(found) == min(DEPTH, len(kept))
            nearest = rows.nearest(query, kept)
            if exact_below:  # the same but for near ties, whose order depends on the order of summing
                assert rows.similarities(query, found) == pytest.approx(rows.similarities(query, nearest), abs=1e-5)
            elif kept:
                assert recall(found, nearest) >= 0.9


async def test_the_score_is_the_cosine_similarity(exact: DenseLeg, rows: Rows) -> None:
    found = (await exact(rows.tenant, question("q1"), 3)).ranked

    similarities = np.sort(rows.vectors @ halved(unit_vector("q1")))[::-1]
    assert [ranked.score for ranked in found] == pytest.approx(similarities[:3].tolist(), abs=1e-3)


async def test_the_index_finds_nearly_all_of_the_nearest(by_index: DenseLeg, rows: Rows) -> None:
    recalls = [recall(await search(by_index, rows.tenant, query), rows.nearest(query)) for query in QUESTIONS]

    assert np.mean(recalls) >= 0.95


async def test_the_index_is_used_where_it_is_meant_to_be(database: Database, rows: Rows) -> None:
    scans = text(
        "SELECT sum(pg_stat_get_xact_numscans(c.oid)) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
        " WHERE a.amname = 'hnsw'"
    )
    asked = indexed(scope(), unit_vector("q1"), generation=1, limit=DEPTH, chunks=ROWS)
    async with database.snapshot(rows.tenant) as tx:
        found = await nearest(tx, asked)
        used = (await tx.select(Compiled.of(scans)))[0][0]

    assert used > 0
    assert len(found) == DEPTH


@pytest.mark.parametrize(("chunks", "candidates"), [(9_000, "300"), (200_000, "400"), (10**7, "1000")])
async def test_the_graph_is_walked_the_more_thoroughly_the_larger_it_is(
    database: Database, rows: Rows, chunks: int, candidates: str
) -> None:
    async with database.snapshot(rows.tenant) as tx:
        await nearest(tx, indexed(scope(), unit_vector("q1"), generation=1, limit=5, chunks=chunks))
        [[kept]] = await tx.select(Compiled.of(text("SELECT current_setting('hnsw.ef_search')")))

    assert kept == candidates


async def test_rows_are_complete_where_none_of_the_nearest_is_in_scope(
    database: Database, tenant: TenantId, exact: DenseLeg
) -> None:
    rows = random_rows(tenant, 700, seed=5)
    order = np.argsort(-(rows.vectors @ halved(unit_vector("q1")))).tolist()
    closed = set(order[:300])
    facets = [Facets(acl=("board",)) if n in closed else Facets() for n in range(700)]
    documents = [replace(one, facets=of_one) for one, of_one in zip(rows.documents, facets, strict=True)]
    await store(database, tenant, documents)

    found = await search(exact, tenant, "q1")

    nearest = rows.nearest("q1", set(order[300:]))
    assert rows.similarities("q1", found) == pytest.approx(rows.similarities("q1", nearest), abs=1e-5)


async def test_of_equally_near_texts_the_first_by_id_are_found_however_many_there_are(
    database: Database, tenant: TenantId, exact: DenseLeg
) -> None:
    same = unit_vector("q1")[None]
    documents = [prepared(f"doc-{n}", f"text {n}", vectors=same) for n in range(600)]
    await store(database, tenant, documents)

    found = await search(exact, tenant, "q1")

    assert found == sorted(ids_of(document)[0] for document in documents)[:DEPTH]


async def test_rows_are_complete_right_after_the_nearest_were_deleted(database: Database, by_index: DenseLeg) -> None:
    rows = random_rows(await create_tenant(database, "worn"), 700, seed=2)
    await store(database, rows.tenant, rows.documents)
    order = np.argsort(-(rows.vectors @ halved(unit_vector("q1")))).tolist()
    async with database.tenant(rows.tenant) as tx:
        for n in order[:200]:
            await delete_document(tx, f"doc-{n}")

    found = await search(by_index, rows.tenant, "q1")

    nearest = rows.nearest("q1", set(order[200:]))
    assert len(found) == DEPTH
    assert not set(found) & {rows.ids[n] for n in order[:200]}
    assert recall(found, nearest) >= 0.95


@pytest.mark.parametrize("exact_below", [0, 10_000])
async def test_another_tenants_rows_in_the_same_index_change_nothing(
    database: Database, owner: psycopg.Connection, rows: Rows, exact_below: int
) -> None:
    name = neighbour(owner, rows.tenant, f"neighbour-{exact_below}")
    far = random_rows(await create_tenant(database, name), 60, seed=4)
    # opposite to the question, so that every row of the large tenant is nearer
    away = [replace(one, vectors=one.vectors * 0.1 - unit_vector("q1")) for one in far.documents]
    await store(database, far.tenant, away)

    found = await search(DenseLeg(database, embedders(), exact_below=exact_below), far.tenant, "q1")

    assert len(found) == DEPTH
    assert set(found) <= set(far.ids)


def neighbour(owner: psycopg.Connection, tenant: TenantId, stem: str) -> str:
    """The name of a tenant whose rows go to the partition, and so the index, of *tenant*."""
    here = "SELECT satisfies_hash_partition('neighbours'::regclass, 8, n, %s::uuid) FROM generate_series(0, 7) n"
    wanted = owner.execute(here, (tenant,)).fetchall()
    names = (f"{stem}-{n}" for n in range(1000))
    return next(name for name in names if owner.execute(here, (tenant_id(name),)).fetchall() == wanted)


async def test_a_tenant_without_rows_finds_nothing(exact: DenseLeg, by_index: DenseLeg, tenant: TenantId) -> None:
    assert await search(exact, tenant, "q1") == []
    assert await search(by_index, tenant, "q1") == []


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
async def test_a_vector_without_a_direction_is_refused_and_nothing_of_its_document_stored(
    database: Database, tenant: TenantId, value: float
) -> None:
    broken = prepared("broken", "text one", "text two", vectors=np.full((2, 384), value, np.float32))

    with pytest.raises(RagError):
        await store(database, tenant, [broken])

    assert await stored(database, tenant, "broken") is False


@pytest.mark.parametrize("shape", [(2, 383), (1, 384), (3, 384)])
async def test_vectors_of_another_shape_are_refused(
    database: Database, tenant: TenantId, shape: tuple[int, int]
) -> None:
    broken = prepared("broken", "text one", "text two", vectors=np.ones(shape, np.float32))

    with pytest.raises((RagError, ValueError)):
        await store(database, tenant, [broken])

    assert await stored(database, tenant, "broken") is False


async def stored(database: Database, tenant: TenantId, external_id: str) -> bool:
    async with database.tenant(tenant) as tx:
        try:
            await get_document(tx, external_id, frozenset())
        except NotFound:
            return False
    return True
