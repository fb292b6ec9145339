"""Everything that is stored for a tenant, without the ids that differ from one tenant to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from rag.store.postings import read
from rag.values import TenantId

Place = tuple[str, int]  # a document's external id, and a chunk's position in it


@dataclass(frozen=True)
class Stored:
    """Documents by external id, chunks and vectors by place, and for each term its weights by place."""

    documents: dict[str, tuple[Any, ...]]
    chunks: dict[Place, tuple[Any, ...]]
    vectors: dict[Place, str]
    postings: dict[int, dict[Place, float]]
    langs: list[str]

    @classmethod
    def of(cls, owner: psycopg.Connection, tenant: TenantId) -> Stored:
        """What is stored now; postings of chunks that are gone are left out, as a search leaves them out."""
        places = _places(owner, tenant)
        return cls(
            {row[0]: row for row in owner.execute(_DOCUMENTS, (tenant,))},
            {(row[0], row[1]): row for row in owner.execute(_CHUNKS, (tenant,))},
            {places[ord_]: vector for ord_, vector in owner.execute(_VECTORS, (tenant,))},
            _postings(owner, tenant, places),
            next(row[0] for row in owner.execute("SELECT langs FROM indexes WHERE tenant_id = %s", (tenant,))),
        )


@dataclass(frozen=True)
class Counters:
    """What an index says of itself, and the same counted in its rows."""

    posted: int
    dead: int

    @classmethod
    def told(cls, owner: psycopg.Connection, tenant: TenantId) -> Counters:
        return cls(*owner.execute("SELECT posted, dead FROM indexes WHERE tenant_id = %s", (tenant,)).fetchall()[0])

    @classmethod
    def counted(cls, owner: psycopg.Connection, tenant: TenantId) -> Counters:
        posted = [ord_ for _, ord_, _ in _entries(owner, tenant)]
        return cls(len(set(posted)), len(set(posted) - _places(owner, tenant).keys()))


_DOCUMENTS = (
    "SELECT external_id, title, lang, tags, metadata, acl, fingerprint, chunk_count, text, version, superseded, folder,"
    " generations, blocks, quarantined FROM documents WHERE tenant_id = %s"
)
_CHUNKS = (
    "SELECT external_id, position, kind, breadcrumb, char_start, char_end, section_start, section_end, c.text, indexed,"
    " content FROM chunks c JOIN documents USING (tenant_id, document_id) WHERE tenant_id = %s"
)
_VECTORS = "SELECT ord, embedding::text FROM embeddings WHERE tenant_id = %s"
_PLACES = (
    "SELECT ord, external_id, position FROM chunks JOIN documents USING (tenant_id, document_id) WHERE tenant_id = %s"
)


def _places(owner: psycopg.Connection, tenant: TenantId) -> dict[int, Place]:
    return {ord_: (name, position) for ord_, name, position in owner.execute(_PLACES, (tenant,))}


def _entries(owner: psycopg.Connection, tenant: TenantId) -> list[tuple[int, int, float]]:
    """Term, ordinal and weight of every posting."""
    rows = owner.execute("SELECT term, ords, weights FROM postings WHERE tenant_id = %s", (tenant,)).fetchall()
    blocks = [read(*row) for row in rows]
    return [(block.term, int(o), float(w)) for block in blocks for o, w in zip(block.ords, block.weights, strict=True)]


def _postings(owner: psycopg.Connection, tenant: TenantId, places: dict[int, Place]) -> dict[int, dict[Place, float]]:
    found: dict[int, dict[Place, float]] = {}
    for term, ord_, weight in _entries(owner, tenant):
        if ord_ in places:
            by_place = found.setdefault(term, {})
            assert places[ord_] not in by_place, f"term {term} is posted twice for {places[ord_]}"
            by_place[places[ord_]] = weight
    return found
