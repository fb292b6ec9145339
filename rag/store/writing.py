"""Writing documents: one transaction puts them in place of what was stored, in both legs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from uuid import uuid5

import numpy as np
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from rag.errors import UpstreamError
from rag.protocols import Vectors
from rag.store.answers import forget_answers
from rag.store.engine import TenantTx
from rag.store.indexes import check_recipe, check_room, index_state, lock, open_index
from rag.store.postings import Block, build
from rag.store.search import insert_blocks
from rag.values import DIMS, DocumentId, Draft, Facets, Recipe, chunk_id, content_id, document_id

STAGED = (
    *("uuid", "uuid", "int4", "uuid", "int4", "int4", "text", "text[]", "int4", "int4", "int4", "int4", "text", "text"),
    "halfvec",
)


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to be written: its chunks, their vectors (n, dims) and their terms, row by row.

    `blocks` is what its parser made of it, to cut it anew some day. Chunks at the positions in `quarantined` have no
    vector, for the reason given; BM25 finds them.
    """

    external_id: str
    facets: Facets
    fingerprint: bytes
    text: str
    drafts: Sequence[Draft]
    vectors: Vectors
    terms: Sequence[Sequence[str]]
    blocks: bytes = b""
    quarantined: Mapping[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    folder: str | None = None
    keep_history: bool = False

    @property
    def chunk_count(self) -> int:
        """The chunks that both legs find."""
        return len(self.drafts) - len(self.quarantined)


async def replace_documents(tx: TenantTx, documents: Sequence[PreparedDocument], recipe: Recipe) -> None:
    """Put *documents* in place of what is stored under their external ids, in both legs.

    Where history is kept, the version before stays and ends where the new one begins. Raises NotFound when the tenant
    does not exist, IndexMismatch when its index was made with another recipe, IndexFull when it has no numbers left.
    """
    for document in documents:
        _check_vectors(document)
    postings = await _postings(documents)  # before the lock
    first_ord, generation = await lock(tx)
    graphed = await open_index(tx, generation, recipe)
    ids = [document_id(tx.tenant_id, document.external_id) for document in documents]
    rows = await tx.fetch("current_versions", document_ids=ids)
    versions = {DocumentId(row[0]): int(row[1]) for row in rows}
    pairs = [await _kept(tx, id_, document, versions) for id_, document in zip(ids, documents, strict=True)]
    await tx.run("delete_chunks", document_ids=ids)
    await tx.run_many("upsert_document", [_row(*pair, versions=versions, generation=generation) for pair in pairs])
    await tx.run("close_history", document_ids=ids)
    await forget_answers(tx, ids)
    await _add(tx, pairs, postings, generation=generation, first_ord=first_ord)
    if graphed:
        await tx.run("insert_neighbours")


async def add_to_index(
    tx: TenantTx, documents: Sequence[tuple[DocumentId, PreparedDocument]], recipe: Recipe, *, generation: int
) -> list[PreparedDocument]:
    """Those of the documents that are stored as they were prepared; their chunks are then in that index too.

    Raises NotFound when there is no such index, IndexMismatch when it is made with another recipe, IndexFull when the
    tenant has no numbers left.
    """
    for _, document in documents:
        _check_vectors(document)
    postings = await _postings([document for _, document in documents])
    first_ord, _ = await lock(tx)
    state = await index_state(tx, generation)
    check_recipe(state.recipe or recipe, recipe)
    rows = await tx.fetch(
        "join_index",
        generation=generation,
        document_ids=[id_ for id_, _ in documents],
        fingerprints=[document.fingerprint for _, document in documents],
    )
    joined = {DocumentId(row[0]) for row in rows}
    pairs = [(id_, document) for id_, document in documents if id_ in joined]
    if len(pairs) < len(documents):  # some have changed meanwhile: rare, so worth no work before the lock
        postings = await _postings([document for _, document in pairs])
    if pairs:
        await _add(tx, pairs, postings, generation=generation, first_ord=first_ord)
        if state.graphed:
            await tx.run("insert_neighbours")
    return [document for _, document in pairs]


async def _postings(documents: Sequence[PreparedDocument]) -> list[Block]:
    terms = [chunk for document in documents for chunk in document.terms]
    return await asyncio.to_thread(lambda: list(build(terms)))


async def _kept(
    tx: TenantTx, document: DocumentId, prepared: PreparedDocument, versions: dict[DocumentId, int]
) -> tuple[DocumentId, PreparedDocument]:
    """The document with its version in *versions*; when history is kept, the version before has made room."""
    version = versions.setdefault(document, 0)
    if version and not prepared.keep_history:
        return document, prepared
    versions[document] = version + 1
    if not version:
        return document, prepared
    begins = prepared.facets.valid_from or datetime.now(UTC)
    kept = {"document_id": document, "kept_id": uuid5(document, f"version {version}")}
    await tx.run("next_version", document_id=document)
    await tx.run("keep_version", valid_until=begins, **kept)
    await tx.run("keep_chunks", **kept)
    return document, replace(prepared, facets=replace(prepared.facets, valid_from=begins))


async def _add(
    tx: TenantTx,
    pairs: Sequence[tuple[DocumentId, PreparedDocument]],
    postings: Sequence[Block],
    *,
    generation: int,
    first_ord: int,
) -> None:
    """Put the chunks of the documents into an index, in both legs."""
    check_room(first_ord, sum(len(document.drafts) for _, document in pairs))
    await tx.run("stage_table")
    added = await tx.copy("stage_chunks", STAGED, _chunk_rows(pairs, generation=generation, first_ord=first_ord))
    await tx.run("insert_chunks")
    await tx.run("insert_embeddings")
    await insert_blocks(tx, [block.shifted(first_ord) for block in postings], generation=generation)
    await tx.run("give_ordinals", added=added)
    langs = sorted({document.facets.lang for _, document in pairs})
    await tx.run("count_added", generation=generation, added=added, langs=langs)


def _check_vectors(document: PreparedDocument) -> None:
    """A vector without a direction is near nothing: refused here, since it would sort before every other."""
    shape = (len(document.drafts), DIMS)
    if document.vectors.shape != shape:
        raise UpstreamError(f"the embedder gave vectors of shape {document.vectors.shape}, expected {shape}")
    norms = np.delete(np.linalg.norm(document.vectors, axis=1), list(document.quarantined))
    if not np.all(np.isfinite(norms) & (norms > 0)):
        raise UpstreamError(f"the embedder gave {document.external_id!r} a vector that is zero or not finite")


def _row(
    document: DocumentId, prepared: PreparedDocument, *, versions: Mapping[DocumentId, int], generation: int
) -> dict[str, object]:
    places = [(prepared.drafts[position], reason) for position, reason in sorted(prepared.quarantined.items())]
    return {
        **asdict(prepared.facets),
        "document_id": document,
        "external_id": prepared.external_id,
        "tags": list(prepared.facets.tags),
        "acl": list(prepared.facets.acl),
        "metadata": Jsonb(prepared.facets.metadata),
        "fingerprint": prepared.fingerprint,
        "chunk_count": prepared.chunk_count,
        "text": prepared.text,
        "version": versions[document],
        "folder": prepared.folder,
        "generation": generation,
        "blocks": prepared.blocks,
        "quarantined": Jsonb([{"start": d.start, "end": d.end, "reason": reason} for d, reason in places]),
    }


def _chunk_rows(
    pairs: Sequence[tuple[DocumentId, PreparedDocument]], *, generation: int, first_ord: int
) -> Iterator[tuple[object, ...]]:
    """The rows of `stage_chunks`, in the order of its columns."""
    ord_ = first_ord
    for document, prepared in pairs:
        for n, (draft, vector) in enumerate(zip(prepared.drafts, prepared.vectors, strict=True)):
            yield (
                chunk_id(document, draft.position, draft.text),
                document,
                generation,
                content_id(draft.indexed),
                ord_,
                draft.position,
                draft.kind,
                list(draft.breadcrumb),
                draft.start,
                draft.end,
                draft.section_start,
                draft.section_end,
                draft.text,
                draft.indexed,
                None if n in prepared.quarantined else HalfVector(vector),
            )
            ord_ += 1
