"""Documents as the store takes them, without the pipeline: one chunk for each text given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from rag.analysis import analyse
from rag.protocols import Vectors
from rag.store.documents import PreparedDocument, replace_documents
from rag.store.engine import Database
from rag.values import Draft, Facets, Filter, Question, Scope, TenantId, chunk_id, document_id
from tests.fakes import unit_vector

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
        await replace_documents(tx, list(documents))


def scope(filter_: Filter | None = None, *, groups: Sequence[str] = (), as_of: datetime = NOW) -> Scope:
    return Scope(frozenset(groups), as_of, filter_)


def question(text: str, in_scope: Scope | None = None, *, top_k: int = 6) -> Question:
    return Question(text, in_scope or scope(), top_k=top_k)


def ids_of(tenant: TenantId, document: PreparedDocument) -> list[str]:
    """The ids its chunks have once stored."""
    owner = document_id(tenant, document.external_id)
    return [str(chunk_id(owner, draft.position, draft.text)) for draft in document.drafts]
