"""What the two legs read: how many rows match, the nearest vectors, posting blocks, and the chunks found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.sqlalchemy import HALFVEC
from psycopg.rows import TupleRow
from sqlalchemy import ARRAY, ColumnElement, Integer, Select, Uuid, and_, bindparam, func, select

from rag.protocols import Vectors
from rag.store.engine import Compiled, TenantTx
from rag.store.filters import parameters, visible
from rag.store.postings import Block, read
from rag.store.schema import chunks, documents, embeddings
from rag.values import DIMS, Chunk, ChunkId, DocumentId, Scope

UNCOUNTED = 2**62  # a partition that was never analysed
_D, _C, _E = documents.c, chunks.c, embeddings.c
_DISTANCE = _E.embedding.op("<=>")(bindparam("vector", type_=HALFVEC(DIMS))).label("distance")
_OF_DOCUMENT = and_(_C.tenant_id == _D.tenant_id, _C.document_id == _D.document_id)
_OF_CHUNK = and_(_E.tenant_id == _C.tenant_id, _E.ord == _C.ord)
_CHUNK = (
    *(_C.chunk_id, _C.document_id, _D.external_id, _D.title, _C.breadcrumb, _C.kind, _C.text, _C.indexed),
    *(_C.char_start, _C.char_end, _C.section_start, _C.section_end),
)
_LIMIT = bindparam("limit", type_=Integer)
_WANTED = _C.chunk_id == func.any(bindparam("chunk_ids", type_=ARRAY(Uuid)))
_THIS_TENANT = bindparam("tenant_id", type_=_C.tenant_id.type)


@dataclass(frozen=True, slots=True)
class TenantState:
    """A tenant's index: its version, what its postings hold, and what came since they were compacted."""

    index_version: int = 0
    posted: int = 0
    dead: int = 0
    next_ord: int = 0
    appended: int = 0
    writes: int = 0
    langs: tuple[str, ...] = ()


async def tenant_state(tx: TenantTx) -> TenantState:
    """The tenant's index as this transaction sees it; an unknown tenant has an empty one."""
    rows = await tx.fetch("tenant_state")
    if not rows:
        return TenantState()
    version, posted, dead, next_ord, appended, writes, langs = rows[0]
    return TenantState(version, posted, dead, next_ord, appended, writes, tuple(langs))


async def count_matching(tx: TenantTx, scope: Scope) -> int:
    """The number of chunks in scope, read from the documents alone."""
    return int((await _rows(tx, _count, scope))[0][0])


async def partition_rows(tx: TenantTx) -> int:
    """About how many vectors share the tenant's partition, and so its index; very many when nobody has counted."""
    rows = await tx.fetch("partition_rows")
    estimate = int(rows[0][0]) if rows else 0
    return estimate if estimate >= 0 else UNCOUNTED


async def nearest_exact(tx: TenantTx, scope: Scope, vector: Vectors, *, limit: int) -> list[tuple[ChunkId, float]]:
    """The *limit* nearest chunks in scope and their cosine distances: every one of them is compared."""
    return _pairs(await _rows(tx, _exact, scope, vector=HalfVector(vector), limit=limit))


async def nearest_indexed(tx: TenantTx, scope: Scope, vector: Vectors, *, limit: int) -> list[tuple[ChunkId, float]]:
    """Up to *limit* near chunks in scope by the HNSW index; may be too few, which the caller checks."""
    await tx.tune(
        hnsw__ef_search="200",  # below, recall@50 falls under 0.99
        hnsw__iterative_scan="strict_order",
        hnsw__max_scan_tuples="40000",
        enable_seqscan="off",
        enable_sort="off",
    )
    found = _pairs(await _rows(tx, _indexed, scope, vector=HalfVector(vector), limit=limit))
    await tx.tune(enable_seqscan="on", enable_sort="on")
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


async def posting_blocks(tx: TenantTx, terms: Sequence[int]) -> list[Block]:
    """The blocks of *terms*."""
    return [read(*row) for row in await tx.fetch("posting_blocks", terms=list(terms))]


async def insert_blocks(tx: TenantTx, blocks: Sequence[Block]) -> None:
    """Store the blocks, in one statement."""
    terms, firsts, sizes, ords, weights = (
        zip(*(block.columns() for block in blocks), strict=True) if blocks else [()] * 5
    )
    columns = {"terms": terms, "blocks": firsts, "sizes": sizes, "ords": ords, "weights": weights}
    await tx.run("insert_postings", **{name: list(column) for name, column in columns.items()})


async def scoped_ords(tx: TenantTx, scope: Scope) -> NDArray[np.int32]:
    """The ordinals of every chunk in scope."""
    return np.fromiter((row[0] for row in await _rows(tx, _ords, scope)), dtype=np.int32)


async def live_in_scope(tx: TenantTx, scope: Scope, ords: Sequence[int]) -> dict[int, ChunkId]:
    """The chunks among *ords* that exist and are in scope, by ordinal."""
    return {int(row[0]): ChunkId(row[1]) for row in await _rows(tx, _live, scope, ords=list(ords))}


async def load_chunks(tx: TenantTx, scope: Scope, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Chunk]:
    """Those of the chunks that exist and are in scope now."""
    found = [_chunk(row) for row in await _rows(tx, _load, scope, chunk_ids=list(chunk_ids))]
    return {chunk.chunk_id: chunk for chunk in found}


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


async def still_visible(tx: TenantTx, scope: Scope, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
    """Those of the chunks that exist and are in scope now."""
    return {ChunkId(row[0]) for row in await _rows(tx, _exist, scope, chunk_ids=list(chunk_ids))}


Build = Callable[[ColumnElement[bool]], Select[Any]]


async def _rows(tx: TenantTx, build: Build, scope: Scope, **values: object) -> list[TupleRow]:
    """The rows of the query that *build* makes from the condition of *scope*."""
    query = _unfiltered(build) if scope.filter is None else Compiled.of(build(visible(scope.filter)))
    return await tx.select(query, **parameters(scope), **values)


@cache
def _unfiltered(build: Build) -> Compiled:
    """Most questions have no filter, and then the query is always the same."""
    return Compiled.of(build(visible(None)))


def _count(condition: ColumnElement[bool]) -> Select[Any]:
    return select(func.coalesce(func.sum(_D.chunk_count), 0)).where(condition)


def _exact(condition: ColumnElement[bool]) -> Select[Any]:
    scoped = (
        select(_C.chunk_id, _DISTANCE)
        .join_from(documents, chunks, _OF_DOCUMENT)
        .join(embeddings, _OF_CHUNK)
        .where(condition, _C.tenant_id == _THIS_TENANT, _E.tenant_id == _THIS_TENANT)
        .cte("scoped")
        # keeps the planner from turning the ORDER BY into an approximate index scan
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return select(scoped.c.chunk_id, scoped.c.distance).order_by(scoped.c.distance, scoped.c.chunk_id).limit(_LIMIT)


def _indexed(condition: ColumnElement[bool]) -> Select[Any]:
    return (
        select(_C.chunk_id, _DISTANCE)
        .join_from(embeddings, chunks, _OF_CHUNK)
        .join(documents, _OF_DOCUMENT)
        .where(condition, _C.tenant_id == _THIS_TENANT, _E.tenant_id == _THIS_TENANT)
        .order_by(_DISTANCE.element)  # the operator itself, ascending: what the index can give
        .limit(_LIMIT)
    )


def _ords(condition: ColumnElement[bool]) -> Select[Any]:
    return select(_C.ord).join_from(documents, chunks, _OF_DOCUMENT).where(condition, _C.tenant_id == _THIS_TENANT)


def _live(condition: ColumnElement[bool]) -> Select[Any]:
    wanted = _C.ord == func.any(bindparam("ords", type_=ARRAY(Integer)))
    query = select(_C.ord, _C.chunk_id).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_C.tenant_id == _THIS_TENANT, wanted, condition)


def _load(condition: ColumnElement[bool]) -> Select[Any]:
    query = select(*_CHUNK).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_C.tenant_id == _THIS_TENANT, _WANTED, condition)


def _exist(condition: ColumnElement[bool]) -> Select[Any]:
    query = select(_C.chunk_id).join_from(chunks, documents, _OF_DOCUMENT)
    return query.where(_C.tenant_id == _THIS_TENANT, _WANTED, condition)


def _spans(condition: ColumnElement[bool]) -> Select[Any]:
    arrays = (("document_ids", Uuid), ("starts", Integer), ("lengths", Integer))
    span = (
        func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in arrays))
        .table_valued("document_id", "start", "length", with_ordinality="n")
        .render_derived(name="span")
    )
    text = func.substring(_D.text, span.c.start + 1, span.c.length)
    return select(span.c.n, text).join_from(span, documents, _D.document_id == span.c.document_id).where(condition)


def _pairs(rows: Sequence[TupleRow]) -> list[tuple[ChunkId, float]]:
    return [(ChunkId(chunk), float(distance)) for chunk, distance in rows]


def _chunk(row: TupleRow) -> Chunk:
    """The columns of _CHUNK, which are in the order of Chunk's fields."""
    chunk, document, external_id, title, breadcrumb, *rest = row
    return Chunk(ChunkId(chunk), DocumentId(document), external_id, title, tuple(breadcrumb), *rest)
