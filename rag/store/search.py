"""What the two legs read: how many rows match, the nearest vectors, posting blocks, and the chunks found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from pgvector import HalfVector
from pgvector.sqlalchemy import HALFVEC
from psycopg.rows import TupleRow
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Integer,
    Select,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    func,
    not_,
    null,
    or_,
    select,
    true,
)

from rag.protocols import Ordinals, Vectors
from rag.store.engine import Compiled, TenantTx
from rag.store.filters import parameters, visible
from rag.store.messages import NO_SETTINGS, PLANNED_ONCE, Asked, named
from rag.store.postings import Block, read
from rag.store.schema import chunks, documents, embeddings, neighbours
from rag.values import DIMS, Chunk, ChunkId, ContentId, DocumentId, Place, Scope

MAX_PLACES = 100  # of one text in a result
UNCOUNTED = 2**62  # a partition that was never analysed
# the candidates that a walk of the graph keeps: the more vectors there are, the more it takes to find nearly all of the
# nearest 50; with too few it may not even come to their neighbourhood (decision 0011)
EF_LEAST, EF_SHARE, EF_MOST = 300, 500, 1000
CANDIDATES = 4  # of all vectors compared, for each that is wanted: two of three may be out of scope
# of a walk: what else the planner could do is to compare all vectors, which it takes for cheap
_WALK = {
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "40000",
    "enable_seqscan": "off",
    "enable_sort": "off",
}
_D, _C, _E, _N = documents.c, chunks.c, embeddings.c, neighbours.c
_VECTOR = bindparam("vector", type_=HALFVEC(DIMS))
_DISTANCE = _E.embedding.op("<=>")(_VECTOR).label("distance")
_DISTANCE_IN_GRAPH = _N.embedding.op("<=>")(_VECTOR).label("distance")
_OF_DOCUMENT = and_(_C.tenant_id == _D.tenant_id, _C.document_id == _D.document_id)
_OF_CHUNK = and_(_E.tenant_id == _C.tenant_id, _E.ord == _C.ord)
_CHUNK = (
    *(_C.chunk_id, _C.document_id, _D.external_id, _D.title, _C.breadcrumb, _C.kind, _C.text, _C.indexed),
    *(_C.char_start, _C.char_end, _C.section_start, _C.section_end, _D.version, _D.tags),
)
_LIMIT = bindparam("limit", type_=Integer)
_THESE_ORDS = _C.ord == func.any(bindparam("ords", type_=ARRAY(Integer)))
_THIS_TENANT = bindparam("tenant_id", type_=_C.tenant_id.type)
_THIS_INDEX = and_(_C.tenant_id == _THIS_TENANT, _C.generation == bindparam("generation", type_=Integer))


async def count_matching(tx: TenantTx, scope: Scope) -> int:
    """The number of chunks in scope, read from the documents alone."""
    return int((await _rows(tx, _count, scope))[0][0])


async def partition_rows(tx: TenantTx) -> int:
    """About how many vectors share the tenant's graph; very many when nobody has counted."""
    rows = await tx.fetch("partition_rows")
    estimate = int(rows[0][0]) if rows else 0
    return estimate if estimate >= 0 else UNCOUNTED


async def nearest(tx: TenantTx, asked: Asked) -> list[tuple[ContentId, float]]:
    """The contents of near chunks, with cosine distances, the nearest first: of `exact`, `sifted` and the like."""
    return pairs(await tx.ask(asked))


def pairs(rows: Sequence[TupleRow]) -> list[tuple[ContentId, float]]:
    """As `nearest`, of its rows."""
    found = [(ContentId(content), float(distance)) for content, distance in rows]
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


def exact(scope: Scope, vector: Vectors, *, generation: int, limit: int) -> Asked:
    """The *limit* nearest chunks in scope: every one of them is compared."""
    return _asked(_exact, scope, vector=HalfVector(vector), generation=generation, limit=limit)


def sifted(scope: Scope, vector: Vectors, *, generation: int, limit: int) -> Asked:
    """As `exact` where that many of the tenant's nearest vectors are in scope; else too few, as may be.

    Every vector is compared, and of the nearest alone it is looked up whether they are in scope: a third of the time.
    """
    values = {"vector": HalfVector(vector), "candidates": CANDIDATES * limit, "generation": generation, "limit": limit}
    return _asked(_sifted, scope, **values)


def indexed(scope: Scope, vector: Vectors, *, generation: int, limit: int, chunks: int) -> Asked:
    """Up to *limit* near chunks in scope, by the HNSW index of about so many *chunks*; too few, as may be."""
    candidates = min(max(chunks // EF_SHARE, EF_LEAST), EF_MOST)
    values = {"vector": HalfVector(vector), "generation": generation, "limit": limit}
    return _asked(_indexed, scope, {**_WALK, "hnsw.ef_search": str(candidates)}, **values)


def among(scope: Scope, vector: Vectors, ords: Ordinals, *, generation: int, limit: int) -> Asked:
    """As `exact`, of the chunks among *ords* alone."""
    values = {"vector": HalfVector(vector), "ords": ords.tolist(), "generation": generation, "limit": limit}
    return _asked(_among, scope, **values)


async def posting_blocks(tx: TenantTx, terms: Sequence[int], *, generation: int) -> list[Block]:
    """The blocks of *terms* in an index."""
    return blocks_of(await tx.ask(asked_blocks(terms, generation=generation)))


def asked_blocks(terms: Sequence[int], *, generation: int) -> Asked:
    """What `blocks_of` reads, to be sent along with another statement."""
    return named("posting_blocks", {"terms": list(terms), "generation": generation})


def blocks_of(rows: Sequence[TupleRow]) -> list[Block]:
    """As `posting_blocks`, of its rows."""
    return [read(*row) for row in rows]


async def insert_blocks(tx: TenantTx, blocks: Sequence[Block], *, generation: int) -> None:
    """Store the blocks in an index, in one statement."""
    terms, firsts, sizes, ords, weights = (
        zip(*(block.columns() for block in blocks), strict=True) if blocks else [()] * 5
    )
    columns = {"terms": terms, "blocks": firsts, "sizes": sizes, "ords": ords, "weights": weights}
    await tx.run("insert_postings", generation=generation, **{name: list(column) for name, column in columns.items()})


async def scoped_ords(tx: TenantTx, scope: Scope, *, generation: int) -> Ordinals:
    """The ordinals of every chunk in scope."""
    rows = await _rows(tx, _ords, scope, generation=generation)
    return np.fromiter((row[0] for row in rows), dtype=np.int32)


async def live_in_scope(tx: TenantTx, scope: Scope, ords: Sequence[int], *, generation: int) -> dict[int, ContentId]:
    """What the chunks among *ords* say that exist and are in scope, by ordinal."""
    rows = await _rows(tx, _live, scope, ords=list(ords), generation=generation)
    return {int(row[0]): ContentId(row[1]) for row in rows}


async def texts_to_search(
    tx: TenantTx, scope: Scope, ords: Ordinals, patterns: Sequence[str], *, generation: int
) -> list[tuple[int, str | None]]:
    """The chunks among *ords* that exist, are in scope and may match every pattern, by ordinal.

    None stands for a text in ASCII that does, in lower case: the server has seen to it, and nothing is sent. Other
    texts the caller must look at.
    """
    values = {"ords": ords.tolist(), "patterns": list(patterns), "generation": generation}
    return [(int(ord_), text) for ord_, text in await _rows(tx, _texts, scope, **values)]


async def load_chunks(
    tx: TenantTx, scope: Scope, contents: Sequence[ContentId], *, generation: int
) -> dict[ContentId, Chunk]:
    """A chunk for each of *contents* that exists in scope now: the first by external id, and where else it stands.

    Of a text that stands in very many places, as a disclaimer, the first MAX_PLACES are named.
    """
    rows = await _rows(tx, _load, scope, contents=list(contents), generation=generation)
    found: dict[ContentId, list[Chunk]] = {}
    for content, _, *columns in rows:
        found.setdefault(ContentId(content), []).append(_chunk(columns))
    return {content: replace(first, also_in=tuple(map(_place, rest))) for content, (first, *rest) in found.items()}


async def known_vectors(tx: TenantTx, contents: Sequence[ContentId], *, generation: int) -> dict[ContentId, Vectors]:
    """The vectors that an index has already, by what they are of: a text is embedded once."""
    rows = await tx.fetch("known_vectors", contents=list(contents), generation=generation)
    return {ContentId(content): np.asarray(vector.to_numpy(), np.float32) for content, vector in rows}


async def load_spans(tx: TenantTx, scope: Scope, wanted: Sequence[tuple[DocumentId, int, int]]) -> list[str | None]:
    """The text of each (document, start, end); None where the document is gone or out of scope."""
    rows = await _rows(
        tx,
        _spans,
        scope,
        document_ids=[document for document, _, _ in wanted],
        starts=[start for _, start, _ in wanted],
        lengths=[end - start for _, start, end in wanted],
    )
    found = {int(n): str(text) for n, text in rows}
    return [found.get(n) for n in range(1, len(wanted) + 1)]


async def still_visible(tx: TenantTx, scope: Scope, chunk_ids: Sequence[ChunkId], *, generation: int) -> set[ChunkId]:
    """Those of the chunks that exist and are in scope now."""
    rows = await _rows(tx, _exist, scope, chunk_ids=list(chunk_ids), generation=generation)
    return {ChunkId(row[0]) for row in rows}


Build = Callable[[ColumnElement[bool]], Select[Any]]


async def _rows(tx: TenantTx, build: Build, scope: Scope, **values: object) -> list[TupleRow]:
    """The rows of the query that *build* makes from the condition of *scope*."""
    return await tx.ask(_asked(build, scope, **values))


def _asked(build: Build, scope: Scope, settings: Mapping[str, str] = NO_SETTINGS, /, **values: object) -> Asked:
    """The query that *build* makes from the condition of *scope*; a filter's plan depends on what it lets pass."""
    if scope.filter is not None:
        return Compiled.of(build(visible(scope.filter))).asked(settings, **parameters(scope), **values)
    once = PLANNED_ONCE if build in _BY_KEY else NO_SETTINGS
    return _unfiltered(build).asked({**once, **settings}, **parameters(scope), **values)


@cache
def _unfiltered(build: Build) -> Compiled:
    """Most questions have no filter, and then the query is always the same."""
    return Compiled.of(build(visible(None)))


def _count(condition: ColumnElement[bool]) -> Select[Any]:
    return select(func.coalesce(func.sum(_D.chunk_count), 0)).where(condition)


def _exact(condition: ColumnElement[bool]) -> Select[Any]:
    return _compared(condition)


def _among(condition: ColumnElement[bool]) -> Select[Any]:
    return _compared(and_(condition, _THESE_ORDS))


def _compared(condition: ColumnElement[bool]) -> Select[Any]:
    scoped = (
        select(_C.content, _DISTANCE)
        .join_from(documents, chunks, _OF_DOCUMENT)
        .join(embeddings, _OF_CHUNK)
        .where(condition, _THIS_INDEX, _E.tenant_id == _THIS_TENANT)
        .cte("scoped")
        # keeps the planner from turning the ORDER BY into an approximate index scan
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return select(scoped.c.content, scoped.c.distance).order_by(scoped.c.distance, scoped.c.content).limit(_LIMIT)


def _sifted(condition: ColumnElement[bool]) -> Select[Any]:
    candidates = bindparam("candidates", type_=Integer)
    nearest = select(_E.ord, _DISTANCE).where(_E.tenant_id == _THIS_TENANT).order_by(_DISTANCE).limit(candidates)
    near = nearest.cte("near").prefix_with("MATERIALIZED", dialect="postgresql")
    # others may be as near as the last candidate, and come first by their content
    last = select(func.max(near.c.distance)).scalar_subquery()
    seen = select(_C.content).join_from(chunks, documents, _OF_DOCUMENT)
    # one at a time, the nearest first: beside many tenants, the planner would rather read all chunks of this one
    hit = seen.where(condition, _THIS_INDEX, _C.ord == near.c.ord).limit(1).lateral("hit")
    found = select(hit.c.content, near.c.distance).join_from(near, hit, true()).where(near.c.distance < last)
    return found.order_by(near.c.distance, hit.c.content).limit(_LIMIT)


def _indexed(condition: ColumnElement[bool]) -> Select[Any]:
    return (
        select(_C.content, _DISTANCE_IN_GRAPH)
        .join_from(neighbours, chunks, and_(_N.tenant_id == _C.tenant_id, _N.ord == _C.ord))
        .join(documents, _OF_DOCUMENT)
        .where(condition, _THIS_INDEX, _N.tenant_id == _THIS_TENANT)
        .order_by(_DISTANCE_IN_GRAPH.element)  # the operator itself, ascending: what the index can give
        .limit(_LIMIT)
    )


def _ords(condition: ColumnElement[bool]) -> Select[Any]:
    return select(_C.ord).join_from(documents, chunks, _OF_DOCUMENT).where(condition, _THIS_INDEX)


def _live(condition: ColumnElement[bool]) -> Select[Any]:
    query = select(_C.ord, _C.content).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_THIS_INDEX, _THESE_ORDS, condition)


def _texts(condition: ColumnElement[bool]) -> Select[Any]:
    ascii_only = func.octet_length(_C.indexed) == func.char_length(_C.indexed)
    lowered = func.lower(_C.indexed.collate("C"))  # byte by byte, several times as fast
    matches = lowered.op("~", is_comparison=True)(func.all(bindparam("patterns", type_=ARRAY(Text))))
    text = case((ascii_only, null()), else_=_C.indexed)
    query = select(_C.ord, text).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_THIS_INDEX, _THESE_ORDS, condition, or_(not_(ascii_only), matches))


def _load(condition: ColumnElement[bool]) -> Select[Any]:
    wanted = _C.content == func.any(bindparam("contents", type_=ARRAY(Uuid)))
    order = (_D.external_id, _C.position, _D.version)
    nth = func.row_number().over(partition_by=_C.content, order_by=order).label("nth")
    query = select(_C.content, nth, *_CHUNK).join_from(chunks, documents, _OF_DOCUMENT)
    places = query.where(_THIS_INDEX, wanted, condition).subquery()
    return select(places).where(places.c.nth <= MAX_PLACES).order_by(places.c.content, places.c.nth)


def _exist(condition: ColumnElement[bool]) -> Select[Any]:
    wanted = _C.chunk_id == func.any(bindparam("chunk_ids", type_=ARRAY(Uuid)))
    query = select(_C.chunk_id).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_THIS_INDEX, wanted, condition)


def _spans(condition: ColumnElement[bool]) -> Select[Any]:
    arrays = (("document_ids", Uuid), ("starts", Integer), ("lengths", Integer))
    span = (
        func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in arrays))
        .table_valued("document_id", "start", "length", with_ordinality="n")
        .render_derived(name="span")
    )
    text = func.substring(_D.text, span.c.start + 1, span.c.length)
    return select(span.c.n, text).join_from(span, documents, _D.document_id == span.c.document_id).where(condition)


def _place(chunk: Chunk) -> Place:
    return Place(chunk.chunk_id, chunk.document_id, chunk.external_id, chunk.start, chunk.end)


def _chunk(row: Sequence[Any]) -> Chunk:
    """The columns of _CHUNK, which are in the order of Chunk's fields."""
    chunk, document, external_id, title, breadcrumb, *rest, tags = row
    facts = (tuple(breadcrumb), *rest, tuple(tags))
    return Chunk(ChunkId(chunk), DocumentId(document), external_id, title, *facts)


_BY_KEY = (_indexed, _live, _load, _exist, _spans)  # or by the graph
