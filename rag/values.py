"""The nouns of the service: frozen values that travel between rooms."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Literal, NewType
from uuid import UUID, uuid5

TenantId = NewType("TenantId", UUID)
DocumentId = NewType("DocumentId", UUID)
ChunkId = NewType("ChunkId", UUID)
JobId = NewType("JobId", UUID)
RunId = NewType("RunId", UUID)
ContentId = NewType("ContentId", UUID)

DIMS = 384  # of the vectors in the index
ID_NAMESPACE = UUID("5d1f3b64-6f1c-4c57-9b61-2f2a2d1f7a10")

Scalar = str | int | float | bool
RerankState = Literal["full", "partial", "skipped"]
# why a text has no logit: too many were before it, the time for it was over, or the cross-encoder gave none
Unscored = Literal["busy", "deadline", "failed"]
# why not every candidate has one; switched off: the settings let the cross-encoder read none
RerankReason = Literal["not_asked", "switched_off", "nothing_found", Unscored]
IndexChoice = Literal["current", "next"]
Fusion = Literal["scores", "rrf"]
Recall = Literal["normal", "high"]
ExpansionState = Literal["written", "not_asked", "no_chain", "skipped", "failed"]  # skipped: as it says enough


def tenant_id(name: str) -> TenantId:
    """The id of the tenant called *name*: derived, so nobody needs to read other tenants' rows to find it."""
    return TenantId(uuid5(ID_NAMESPACE, name))


def document_id(tenant: TenantId, external_id: str) -> DocumentId:
    """The id of a tenant's document: the same on every upload of the same *external_id*."""
    return DocumentId(uuid5(tenant, external_id))


def chunk_id(document: DocumentId, position: int, text: str) -> ChunkId:
    """The id of a document's chunk: place and text, so equal texts in two places stay two chunks."""
    return ChunkId(uuid5(document, f"{position}\n{text}"))


def content_id(indexed: str) -> ContentId:
    """The id of what a chunk says, wherever it stands: equal texts are embedded once and shown once."""
    return ContentId(UUID(bytes=sha256(indexed.encode()).digest()[:16]))


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: the tenant a key belongs to, what it may do, and the groups it is in."""

    tenant_id: TenantId
    scopes: frozenset[str]
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock by which work must end."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline *seconds* from now."""
        return cls(time.monotonic() + seconds)

    def remaining_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - time.monotonic())


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison of a filter: *field* *op* *value*."""

    field: str
    op: Literal["eq", "ne", "in", "lt", "lte", "gt", "gte", "exists", "contains"]
    value: Scalar | datetime | tuple[Scalar | datetime, ...]


@dataclass(frozen=True, slots=True)
class All:
    """Every part matches; with no parts, everything does."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one part matches; with no parts, nothing does."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: Filter


Filter = Leaf | All | Any | Not


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an index was made with: vectors and terms of different recipes cannot be compared."""

    embedder: str
    analyser: str
    chunker: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows a question may see: groups of the asker, the moment asked about, and the caller's filter.

    `index` is the index that is asked: the current one, or the next one while `rag reindex` builds it. `dated` when the
    caller named the moment; otherwise it is now.
    """

    groups: frozenset[str]
    as_of: datetime
    filter: Filter | None = None
    index: IndexChoice = "current"
    dated: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A search: the text, what it may see, and how it is ranked.

    `expansion` is what a chat model added to find more, where it was asked: always, or as `recall` is high. `tags` are
    the data classes of what a chat model wrote the text from; `expansion_state` says what became of the expansion.
    """

    text: str
    scope: Scope
    top_k: int = 6
    rerank: bool = True
    recall: Recall = "normal"
    expansion: str = ""
    expansion_state: ExpansionState = "not_asked"
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Facets:
    """What a document is filtered by."""

    title: str = ""
    doc_type: str | None = None
    source: str | None = None
    lang: str = "en"
    tags: tuple[str, ...] = ()
    metadata: dict[str, Scalar] = field(default_factory=dict)
    acl: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A chunk before it is stored. `text` is the document's text[start:end]; `indexed` is what both legs read."""

    position: int
    start: int
    end: int
    section_start: int
    section_end: int
    breadcrumb: tuple[str, ...]
    kind: str
    text: str
    indexed: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands that says the same as another."""

    chunk_id: ChunkId
    document_id: DocumentId
    external_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored chunk with the document facts a caller is shown; `also_in` are the other places of the same text.

    `version` is that of the document, in whose text the spans count; `tags` are the document's.
    """

    chunk_id: ChunkId
    document_id: DocumentId
    external_id: str
    title: str
    breadcrumb: tuple[str, ...]
    kind: str
    text: str
    indexed: str
    start: int
    end: int
    section_start: int
    section_end: int
    version: int = 1
    tags: tuple[str, ...] = ()
    also_in: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a tenant's ranking has of its own, beside the service's settings; None leaves a value to these."""

    dense_weight: float | None = None
    lexical_weight: float | None = None
    depth: int | None = None
    rerank_weight: float | None = None
    fused_weight: float | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """One entry of a leg's list: rank from 1, score on the leg's own scale."""

    content: ContentId
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class LegResult:
    """A leg's ranking, best first, the index it is of and its version, and whether a deadline cut it short.

    What is not in it has the score `floor` at most, that of the last where it is None. `fits` tells whether its model
    knows the question's language; `tuning` is the tenant's, as it was when the index was read.
    """

    ranked: tuple[Ranked, ...]
    index_version: int
    generation: int = 1
    complete: bool = True
    floor: float | None = None
    fits: bool = True
    tuning: Tuning = field(default_factory=Tuning)

    @classmethod
    def of(cls, found: Sequence[tuple[ContentId, float]], *, index_version: int, generation: int) -> LegResult:
        """The result of a list that is in order already, each content once."""
        ranked = (Ranked(content, rank, score) for rank, (content, score) in enumerate(found, 1))
        return cls(tuple(ranked), index_version, generation)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk in a final ranking, with what put it there."""

    chunk: Chunk
    score: float
    fused_rank: int
    fused_score: float
    dense: Ranked | None = None
    lexical: Ranked | None = None
    rerank_rank: int | None = None
    rerank_score: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Everything a search found: the ranked candidates and how they were found.

    `rerank_reason` says why not all was reranked, where it was not; `missing_phrases` are what the question quotes and
    no chunk in its scope has; `hints` say why nothing was found.
    """

    hits: tuple[Hit, ...]
    complete: bool
    rerank: RerankState
    index_version: int
    timings_ms: dict[str, float]
    rerank_reason: RerankReason | None = None
    expansion: str = ""
    expansion_state: ExpansionState = "not_asked"
    missing_phrases: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A source as the answering model reads it: section text around the hits of one document, numbered from 1.

    `chunk` is the best of `chunks`, the hits inside; `start` is where the text begins in the document.
    """

    n: int
    chunks: tuple[Chunk, ...]
    text: str
    start: int

    @property
    def chunk(self) -> Chunk:
        """The best hit."""
        return self.chunks[0]


@dataclass(frozen=True, slots=True)
class Citation:
    """Where an answer's claim stands: `quote` equals the document's text[start:end].

    `supported` is false when a claim that rests on it is not in the source.
    """

    n: int
    chunk_id: ChunkId
    document_id: DocumentId
    external_id: str
    start: int
    end: int
    quote: str
    version: int = 1
    supported: bool = True
    title: str = ""
    breadcrumb: tuple[str, ...] = ()
