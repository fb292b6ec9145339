"""What the two legs read: how many rows match, the nearest vectors, posting blocks, and the chunks found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.sqlalchemy import HALFVEC
from psycopg.rows import TupleRow
from sqlalchemy import ARRAY, Integer, Uuid, and_, bindparam, func, select

from rag.protocols import Vectors
from rag.store.engine import TenantTx
from rag.store.filters import visible
from rag.store.postings import Block, read
from rag.store.schema import DIMS, chunks, documents, embeddings
from rag.values import Chunk, ChunkId, DocumentId, Scope

_D, _C, _E = documents.c, chunks.c, embeddings.c
_DISTANCE = _E.embedding.op("<=>")(bindparam("vector", type_=HALFVEC(DIMS))).label("distance")
_OF_DOCUMENT = and_(_C.tenant_id == _D.tenant_id, _C.document_id == _D.document_id)
_OF_CHUNK = and_(_E.tenant_id == _C.tenant_id, _E.ord == _C.ord)
_CHUNK = (
    *(_C.chunk_id, _C.document_id, _D.external_id, _D.title, _C.breadcrumb, _C.kind, _C.text, _C.indexed),
    *(_C.char_start, _C.char_end, _C.section_start, _C.section_end),
)
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
    query = select(func.coalesce(func.sum(_D.chunk_count), 0)).where(visible(scope))
    return int((await tx.select(query))[0][0])


async def nearest_exact(tx: TenantTx, scope: Scope, vector: Vectors, *, limit: int) -> list[tuple[ChunkId, float]]:
    """The *limit* nearest chunks in scope and their cosine distances: every one of them is compared."""
    # MATERIALIZED keeps the planner from turning the ORDER BY into an approximate index scan
    scoped = (
        select(_C.chunk_id, _DISTANCE)
        .join_from(documents, chunks, _OF_DOCUMENT)
        .join(embeddings, _OF_CHUNK)
        .where(visible(scope), _C.tenant_id == _THIS_TENANT, _E.tenant_id == _THIS_TENANT)
        .cte("scoped")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    query = select(scoped.c.chunk_id, scoped.c.distance).order_by(scoped.c.distance, scoped.c.chunk_id).limit(limit)
    return [(ChunkId(row[0]), float(row[1])) for row in await tx.select(query, vector=HalfVector(vector))]


async def nearest_indexed(tx: TenantTx, scope: Scope, vector: Vectors, *, limit: int) -> list[tuple[ChunkId, float]]:
    """Up to *limit* near chunks in scope by the HNSW index; may be too few, which the caller checks."""
    await tx.tune(
        hnsw__ef_search="200",  # below, recall@50 falls under 0.99
        hnsw__iterative_scan="strict_order",
        hnsw__max_scan_tuples="40000",
        enable_seqscan="off",
        enable_sort="off",
    )
    query = (
        select(_C.chunk_id, _DISTANCE)
        .join_from(embeddings, chunks, _OF_CHUNK)
        .join(documents, _OF_DOCUMENT)
        .where(visible(scope), _C.tenant_id == _THIS_TENANT, _E.tenant_id == _THIS_TENANT)
        .order_by(_E.embedding.op("<=>")(bindparam("vector", type_=HALFVEC(DIMS))))
        .limit(limit)
    )
    found = [(ChunkId(row[0]), float(row[1])) for row in await tx.select(query, vector=HalfVector(vector))]
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


async def posting_blocks(tx: TenantTx, terms: Sequence[int]) -> list[Block]:
    """The blocks of *terms*."""
    return [read(*row) for row in await tx.fetch("posting_blocks", terms=list(terms))]


async def scoped_ords(tx: TenantTx, scope: Scope) -> NDArray[np.int32]:
    """The ordinals of every chunk in scope."""
    query = (
        select(_C.ord).join_from(documents, chunks, _OF_DOCUMENT).where(visible(scope), _C.tenant_id == _THIS_TENANT)
    )
    return np.fromiter((row[0] for row in await tx.select(query)), dtype=np.int32)


async def live_in_scope(tx: TenantTx, scope: Scope, ords: Sequence[int]) -> dict[int, ChunkId]:
    """The chunks among *ords* that exist and are in scope, by ordinal."""
    query = (
        select(_C.ord, _C.chunk_id)
        .join_from(chunks, documents, _OF_DOCUMENT)
        .where(
            _C.tenant_id == _THIS_TENANT,
            _C.ord == func.any(bindparam("ords", list(ords), type_=ARRAY(Integer))),
            visible(scope),
        )
    )
    return {int(row[0]): ChunkId(row[1]) for row in await tx.select(query)}


async def load_chunks(tx: TenantTx, scope: Scope, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Chunk]:
    """Those of the chunks that exist and are in scope now."""
    query = (
        select(*_CHUNK)
        .join_from(chunks, documents, _OF_DOCUMENT)
        .where(
            _C.tenant_id == _THIS_TENANT,
            _C.chunk_id == func.any(bindparam("chunk_ids", list(chunk_ids), type_=ARRAY(Uuid))),
            visible(scope),
        )
    )
    found = [_chunk(row) for row in await tx.select(query)]
    return {chunk.chunk_id: chunk for chunk in found}


def _chunk(row: TupleRow) -> Chunk:
    """The columns of _CHUNK, which are in the order of Chunk's fields."""
    chunk, document, external_id, title, breadcrumb, *rest = row
    return Chunk(ChunkId(chunk), DocumentId(document), external_id, title, tuple(breadcrumb), *rest)
