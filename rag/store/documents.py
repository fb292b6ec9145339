"""Documents: one transaction replaces or deletes them in every leg."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np
from pgvector import HalfVector
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rag.errors import NotFound, UpstreamError
from rag.protocols import Vectors
from rag.store.engine import TenantTx
from rag.store.postings import build
from rag.store.search import insert_blocks
from rag.values import DIMS, ChunkId, DocumentId, Draft, Facets, Scalar, chunk_id, document_id


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to be written: its chunks, their vectors (n, dims) and their terms, row by row."""

    external_id: str
    facets: Facets
    fingerprint: bytes
    text: str
    drafts: Sequence[Draft]
    vectors: Vectors
    terms: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document as its tenant sees it; `text` only where one was asked for."""

    document_id: DocumentId
    external_id: str
    title: str
    doc_type: str | None
    source: str | None
    lang: str
    tags: list[str]
    metadata: dict[str, Scalar]
    acl: list[str]
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime
    updated_at: datetime
    chunks: int
    text: str | None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A piece of a stored document in its place: `text` is the document's text[start:end]."""

    chunk_id: ChunkId
    position: int
    kind: str
    breadcrumb: list[str]
    start: int
    end: int
    text: str
    indexed: str


async def fingerprints(tx: TenantTx, ids: Sequence[DocumentId]) -> dict[DocumentId, bytes]:
    """The fingerprints of those of the documents that are stored."""
    return {DocumentId(row[0]): bytes(row[1]) for row in await tx.fetch("fingerprints", document_ids=list(ids))}


async def replace_documents(tx: TenantTx, documents: Sequence[PreparedDocument]) -> None:
    """Put *documents* in place of what is stored under their external ids, in both legs.

    Raises NotFound when the tenant does not exist.
    """
    for document in documents:
        _check_vectors(document)
    terms = [chunk for document in documents for chunk in document.terms]
    blocks = await asyncio.to_thread(lambda: list(build(terms)))  # before the lock, and off the event loop
    first_ord = await _lock(tx)
    ids = [document_id(tx.tenant_id, document.external_id) for document in documents]
    removed = await tx.run("delete_chunks", document_ids=ids)
    await tx.run_many("upsert_document", [_document_row(*pair) for pair in zip(ids, documents, strict=True)])
    drafts = [(d, draft) for d, document in zip(ids, documents, strict=True) for draft in document.drafts]
    await tx.run_many("insert_chunk", [_chunk_row(d, draft, first_ord + n) for n, (d, draft) in enumerate(drafts)])
    await tx.run_many("insert_embedding", list(_embedding_rows(documents, first_ord)))
    await insert_blocks(tx, [block.shifted(first_ord) for block in blocks])
    langs = sorted({document.facets.lang for document in documents})
    await tx.run("count_change", added=len(drafts), removed=removed, langs=langs)


async def delete_document(tx: TenantTx, external_id: str) -> None:
    """Delete a document from every leg, and any upload of it that is still under way.

    Other transactions see it wholly until this one commits. Raises NotFound when there is none.
    """
    document = document_id(tx.tenant_id, external_id)
    cancelled = await tx.run("supersede_jobs", document_id=document)  # before the tenant: writers lock in this order
    await _lock(tx)
    removed = await tx.run("delete_chunks", document_ids=[document])
    if not await tx.run("delete_document", document_id=document) and not cancelled:
        raise NotFound(f"there is no document {external_id!r}")
    await tx.run("count_change", added=0, removed=removed, langs=[])


async def get_document(tx: TenantTx, external_id: str, groups: frozenset[str]) -> StoredDocument:
    """The document with its text, if one of *groups* may see it.

    Raises NotFound otherwise.
    """
    rows = await tx.fetch("get_document", external_id=external_id, groups=sorted(groups))
    if not rows:
        raise NotFound(f"there is no document {external_id!r}")
    return _from_row(rows[0])


async def list_documents(tx: TenantTx, groups: frozenset[str], *, after: str, limit: int) -> list[StoredDocument]:
    """Up to *limit* documents by external id, those after *after*, without their texts."""
    rows = await tx.fetch("list_documents", after=after, limit=limit, groups=sorted(groups))
    return [_from_row(row) for row in rows]


async def list_chunks(
    tx: TenantTx, external_id: str, groups: frozenset[str], *, after: int, limit: int
) -> list[StoredChunk]:
    """Up to *limit* chunks of a document by position, those after *after*, if one of *groups* may see it.

    Raises NotFound otherwise.
    """
    rows = await tx.fetch("list_chunks", external_id=external_id, groups=sorted(groups), after=after, limit=limit)
    if not rows:
        raise NotFound(f"there is no document {external_id!r}")
    return [StoredChunk(*row) for row in rows if row[0] is not None]


def _check_vectors(document: PreparedDocument) -> None:
    """A vector without a direction is near nothing: refused here, since it would sort before every other."""
    shape = (len(document.drafts), DIMS)
    if document.vectors.shape != shape:
        raise UpstreamError(f"the embedder gave vectors of shape {document.vectors.shape}, expected {shape}")
    norms = np.linalg.norm(document.vectors, axis=1)
    if not np.all(np.isfinite(norms) & (norms > 0)):
        raise UpstreamError(f"the embedder gave {document.external_id!r} a vector that is zero or not finite")


async def _lock(tx: TenantTx) -> int:
    rows = await tx.fetch("lock_tenant")
    if not rows:
        raise NotFound("the tenant does not exist; `rag tenant create NAME` makes it")
    return int(rows[0][0])


def _document_row(document: DocumentId, prepared: PreparedDocument) -> dict[str, object]:
    facets = asdict(prepared.facets)
    return {
        **facets,
        "document_id": document,
        "external_id": prepared.external_id,
        "tags": list(prepared.facets.tags),
        "acl": list(prepared.facets.acl),
        "metadata": Jsonb(prepared.facets.metadata),
        "fingerprint": prepared.fingerprint,
        "chunk_count": len(prepared.drafts),
        "text": prepared.text,
    }


def _chunk_row(document: DocumentId, draft: Draft, ord_: int) -> dict[str, object]:
    return {
        **asdict(draft),
        "breadcrumb": list(draft.breadcrumb),
        "chunk_id": chunk_id(document, draft.position, draft.text),
        "document_id": document,
        "ord": ord_,
    }


def _embedding_rows(documents: Sequence[PreparedDocument], first_ord: int) -> Iterator[dict[str, object]]:
    vectors = (vector for document in documents for vector in document.vectors)
    return ({"ord": n, "embedding": HalfVector(vector)} for n, vector in enumerate(vectors, first_ord))


def _from_row(row: TupleRow) -> StoredDocument:
    return StoredDocument(DocumentId(row[0]), *row[1:])
