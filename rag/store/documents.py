"""Documents as they are stored: read, listed, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import TupleRow

from rag.errors import NotFound
from rag.store.answers import forget_answers
from rag.store.engine import TenantTx
from rag.store.indexes import lock
from rag.store.jobs import drop_jobs
from rag.store.upkeep import ask_upkeep
from rag.values import ChunkId, DocumentId, Scalar, document_id

MAX_VERSION = 2**31 - 1  # what the column holds


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document as its tenant sees it; `text` only where one was asked for.

    `folder` is the one that `rag ingest` keeps it in, `quarantined` are the chunks without a vector: start, end and the
    reason.
    """

    document_id: DocumentId
    external_id: str
    version: int
    superseded: bool
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
    folder: str | None
    chunks: int
    quarantined: list[dict[str, object]]
    text: str | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """What went with a document: its versions, and uploads that were still under way."""

    versions: int
    uploads: int


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


async def delete_document(tx: TenantTx, external_id: str) -> Deleted:
    """What went with the document, which is deleted: every version of it, from every leg, and any upload under way.

    Other transactions see it wholly until this one commits. Raises NotFound when there is none.
    """
    document = document_id(tx.tenant_id, external_id)
    # before the tenant: writers lock in this order
    cancelled = await drop_jobs(tx, [document])
    await lock(tx)
    versions = [DocumentId(row[0]) for row in await tx.fetch("versions_of", external_id=external_id)]
    await tx.run("delete_chunks", document_ids=versions)
    if not await tx.run("delete_documents", external_id=external_id) and not cancelled:
        raise NotFound(f"there is no document {external_id!r}")
    await forget_answers(tx, versions)
    await tx.run("give_ordinals", added=0)
    await ask_upkeep(tx)
    return Deleted(len(versions), cancelled)


async def get_document(
    tx: TenantTx, external_id: str, groups: frozenset[str] | None, version: int | None = None
) -> StoredDocument:
    """A version of the document with its text, by default the current one, if one of *groups* may see it.

    None stands for whoever runs the service, who sees all. Raises NotFound otherwise.
    """
    can_be = version is None or 1 <= version <= MAX_VERSION
    asked = {"external_id": external_id, "groups": _listed(groups), "version": version}
    rows = await tx.fetch("get_document", **asked) if can_be else []
    if not rows:
        what = f"document {external_id!r}" if version is None else f"version {version} of document {external_id!r}"
        raise NotFound(f"there is no {what}")
    return _from_row(rows[0])


async def list_documents(
    tx: TenantTx, groups: frozenset[str] | None, *, after: str, limit: int, prefix: str = "", folder: str | None = None
) -> list[StoredDocument]:
    """Up to *limit* documents by external id, those after *after*, without their texts; *groups* as above.

    Of those whose external id begins with *prefix*, and in *folder*, where one is named.
    """
    narrowed = {"prefix": prefix, "folder": folder, "groups": _listed(groups)}
    rows = await tx.fetch("list_documents", after=after, limit=limit, **narrowed)
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


def _listed(groups: frozenset[str] | None) -> list[str] | None:
    return None if groups is None else sorted(groups)


def _from_row(row: TupleRow) -> StoredDocument:
    return StoredDocument(DocumentId(row[0]), *row[1:])
