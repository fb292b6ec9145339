"""Documents as the store takes them, without the pipeline: one chunk for each text given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from ingest.pipeline import CHUNKER
from rag.analysis import ANALYSER, analyse
from rag.protocols import Vectors
from rag.store.engine import Database
from rag.store.writing import PreparedDocument, replace_documents
from rag.values import (
    Chunk,
    Draft,
    Facets,
    Filter,
    Passage,
    Question,
    Recipe,
    Scope,
    TenantId,
    chunk_id,
    content_id,
    document_id,
)
from tests.fakes import unit_vector

RECIPE = Recipe("fake-embedder", ANALYSER, CHUNKER)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def prepared(
    external_id: str, *texts: str, facets: Facets | None = None, vectors: Vectors | None = None
) -> PreparedDocument:
    """A document whose chunks are *texts*, embedded by their words if no vectors are given."""
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)]).tolist()
    whole = "\n".join(texts)
    drafts = [
        Draft(n, start, start + len(text), 0, len(whole), (), "prose", text, text)
        for n, (start, text) in enumerate(zip(starts, texts, strict=False))
    ]
    lang = facets.lang if facets else "en"
    return PreparedDocument(
        external_id,
        facets or Facets(),
        whole.encode(),
        whole,
        drafts,
        np.stack([unit_vector(text) for text in texts]) if vectors is None else vectors,
        [analyse(text, lang) for text in texts],
    )


async def store(database: Database, tenant: TenantId, documents: Iterable[PreparedDocument]) -> None:
    """Write *documents* in one transaction."""
    async with database.tenant(tenant) as tx:
        await replace_documents(tx, list(documents), RECIPE)


def scope(filter_: Filter | None = None, *, groups: Sequence[str] = (), as_of: datetime = NOW) -> Scope:
    return Scope(frozenset(groups), as_of, filter_)


def question(text: str, in_scope: Scope | None = None, *, top_k: int = 6) -> Question:
    return Question(text, in_scope or scope(), top_k=top_k)


def ids_of(document: PreparedDocument) -> list[str]:
    """The ids of what its chunks say."""
    return [str(content_id(draft.indexed)) for draft in document.drafts]


def passage_of(tenant: TenantId, document: PreparedDocument) -> Passage:
    """The first chunk of a document as a model reads it."""
    draft, owner = document.drafts[0], document_id(tenant, document.external_id)
    chunk = Chunk(
        chunk_id(owner, draft.position, draft.text), owner, document.external_id, "", (), draft.kind, draft.text,
        draft.indexed, draft.start, draft.end, draft.section_start, draft.section_end,
    )  # fmt: skip
    return Passage(1, (chunk,), draft.text, draft.start)
