"""Bodies that come in and go out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rag.api.degraded import DegradedBody, degraded
from rag.calls import Answer
from rag.errors import InvalidInput, TooLarge
from rag.retrieval.filters import parse_filter, parse_moment
from rag.settings import Settings
from rag.storable import storable
from rag.values import (
    ExpansionState,
    Hit,
    IndexChoice,
    Passage,
    Principal,
    Question,
    Ranked,
    Recall,
    RerankReason,
    RerankState,
    Retrieval,
    Scope,
)

MAX_TOP_K = 100  # every candidate that both legs can bring
ANSWER_TOKENS, MAX_TOKENS = 512, 8192


class Strict(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class SearchBody(Strict):
    """A search."""

    query: str
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, strict=True)] = 6
    filters: dict[str, object] | None = None
    as_of: str | None = None
    index: IndexChoice = "current"
    rerank: Annotated[bool, Field(strict=True)] = True
    recall: Recall = "normal"
    explain: Annotated[bool, Field(strict=True)] = False

    def question(self, who: Principal, settings: Settings, *, field: str = "query") -> Question:
        """The question that *who* asks, in the body's *field*.

        Raises InvalidInput or TooLarge for text that cannot be searched.
        """
        as_of = parse_moment(self.as_of, "as_of") if self.as_of is not None else datetime.now(UTC)
        scope = Scope(who.groups, as_of, parse_filter(self.filters), self.index, self.as_of is not None)
        text = searchable(self.query, settings.max_query_chars, field=field)
        return Question(text, scope, self.top_k, self.rerank, self.recall)


class QueryBody(SearchBody):
    """A question to be answered."""

    stream: Annotated[bool, Field(strict=True)] = False
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)] = ANSWER_TOKENS


class RankBody(BaseModel):
    """A place in one list."""

    rank: int
    score: float


class PlaceBody(BaseModel):
    """Where the same text stands as well."""

    chunk_id: str
    document_id: str
    external_id: str
    start: int
    end: int


class HitBody(BaseModel):
    """A chunk that was found; `text` is text[start:end] of the document's version.

    A text that stands in several places is one hit: the first by external id, the others in `also_in`.
    """

    chunk_id: str
    document_id: str
    external_id: str
    title: str
    breadcrumb: list[str]
    kind: str
    text: str
    version: int
    start: int
    end: int
    score: float
    also_in: list[PlaceBody] = []
    ranks: dict[str, RankBody | None] | None = None


class SearchResult(BaseModel):
    """The ranked chunks; `expansion` is, explained, what was searched for beside the question.

    `expansion_state` is, explained, why there is none: see `recall`. `rerank_reason` is why not all was reranked, null
    where it was. `missing_phrases` are what the query quotes and no chunk has that the caller may see and the filters
    keep: with any, nothing is found. `hints` say why there are no hits, where the request is the reason.
    """

    hits: list[HitBody]
    complete: bool
    index_version: int
    timings_ms: dict[str, float]
    rerank: RerankState
    rerank_reason: RerankReason | None
    expansion: str | None = None
    expansion_state: ExpansionState | None = None
    missing_phrases: list[str]
    hints: list[str]
    request_id: str


class CitationBody(BaseModel):
    """Where a claim stands; `quote` is text[start:end] of the document's version.

    `supported` is false when what rests on it is not in the source.
    """

    n: int
    chunk_id: str
    document_id: str
    external_id: str
    title: str
    breadcrumb: list[str]
    version: int
    start: int
    end: int
    quote: str
    supported: bool


class UnsupportedBody(BaseModel):
    """A sentence, answer[start:end], that cites nothing or nothing that supports it."""

    start: int
    end: int
    reason: Literal["uncited", "unsupported"]


class UsageBody(BaseModel):
    """Tokens of the model call; null where the provider does not say."""

    input_tokens: int | None
    output_tokens: int | None


class QueryResult(BaseModel):
    """The answer with its citations.

    `degraded` says why, where a lesser model answered; `data_classes` are those of what the answer was made from.
    `missing_phrases`, `hints`, `rerank` and `rerank_reason` are as of the search for its sources.
    """

    status: Literal["answered", "no_evidence", "degraded"]
    answer: str
    citations: list[CitationBody]
    unsupported: list[UnsupportedBody]
    degraded: DegradedBody | None
    data_classes: list[str]
    missing_phrases: list[str]
    hints: list[str]
    rerank: RerankState
    rerank_reason: RerankReason | None
    provider: str
    model: str
    usage: UsageBody
    cache: Literal["miss", "hit", "off"]
    timings_ms: dict[str, float]
    index_version: int
    prompt_version: str
    request_id: str


class SourceBody(BaseModel):
    """A passage that the answer may cite as [n]."""

    n: int
    chunk_id: str
    document_id: str
    external_id: str
    title: str
    breadcrumb: list[str]
    start: int
    end: int


def searchable(text: str, max_chars: int, *, field: str) -> str:
    """The question's text, which came in *field*.

    Raises InvalidInput for one without content or with characters that no text has, TooLarge for one over the limit.
    """
    if len(text) > max_chars:
        raise TooLarge(f"{field}: {len(text)} characters, the limit is {max_chars} (RAG_MAX_QUERY_CHARS)")
    if not text.strip():
        raise InvalidInput(f"{field}: it is empty; ask something")
    if not storable(text):
        raise InvalidInput(f"{field}: it has a NUL or a lone surrogate, which no text has; leave it out")
    return text


def search_result(retrieval: Retrieval, *, explain: bool, request_id: str) -> SearchResult:
    """The body of a search."""
    return SearchResult(
        hits=[_hit(hit, explain=explain) for hit in retrieval.hits],
        complete=retrieval.complete,
        index_version=retrieval.index_version,
        timings_ms=retrieval.timings_ms,
        rerank=retrieval.rerank,
        rerank_reason=retrieval.rerank_reason,
        expansion=retrieval.expansion if explain else None,
        expansion_state=retrieval.expansion_state if explain else None,
        missing_phrases=list(retrieval.missing_phrases),
        hints=list(retrieval.hints),
        request_id=request_id,
    )


def query_result(answer: Answer, request_id: str) -> QueryResult:
    """The body of an answer."""
    stages = {f"retrieval.{k}": v for k, v in answer.retrieval.timings_ms.items()}
    return QueryResult(
        status=answer.status,
        answer=answer.text,
        citations=citations(answer),
        unsupported=unsupported(answer),
        degraded=degraded(answer),
        data_classes=sorted(answer.data_classes),
        missing_phrases=list(answer.retrieval.missing_phrases),
        hints=list(answer.retrieval.hints),
        rerank=answer.retrieval.rerank,
        rerank_reason=answer.retrieval.rerank_reason,
        provider=answer.target,
        model=answer.model,
        usage=UsageBody(input_tokens=answer.usage.input, output_tokens=answer.usage.output),
        cache=answer.cache,
        timings_ms={**stages, **answer.timings_ms},
        index_version=answer.retrieval.index_version,
        prompt_version=answer.prompt_version,
        request_id=request_id,
    )


def citations(answer: Answer) -> list[CitationBody]:
    """Where the answer's claims stand."""
    return [
        CitationBody(
            n=c.n,
            chunk_id=str(c.chunk_id),
            document_id=str(c.document_id),
            external_id=c.external_id,
            title=c.title,
            breadcrumb=list(c.breadcrumb),
            version=c.version,
            start=c.start,
            end=c.end,
            quote=c.quote,
            supported=c.supported,
        )
        for c in answer.citations
    ]


def unsupported(answer: Answer) -> list[UnsupportedBody]:
    """The answer's sentences to doubt."""
    return [UnsupportedBody(start=u.start, end=u.end, reason=u.reason) for u in answer.unsupported]


def sources(passages: Sequence[Passage]) -> list[SourceBody]:
    """The passages as a stream's first event lists them."""
    return [
        SourceBody(
            n=p.n,
            chunk_id=str(p.chunk.chunk_id),
            document_id=str(p.chunk.document_id),
            external_id=p.chunk.external_id,
            title=p.chunk.title,
            breadcrumb=list(p.chunk.breadcrumb),
            start=p.start,
            end=p.start + len(p.text),
        )
        for p in passages
    ]


def _hit(hit: Hit, *, explain: bool) -> HitBody:
    chunk = hit.chunk
    return HitBody(
        chunk_id=str(chunk.chunk_id),
        document_id=str(chunk.document_id),
        external_id=chunk.external_id,
        title=chunk.title,
        breadcrumb=list(chunk.breadcrumb),
        kind=chunk.kind,
        text=chunk.text,
        version=chunk.version,
        start=chunk.start,
        end=chunk.end,
        score=hit.score,
        also_in=[
            PlaceBody(
                chunk_id=str(place.chunk_id),
                document_id=str(place.document_id),
                external_id=place.external_id,
                start=place.start,
                end=place.end,
            )
            for place in chunk.also_in
        ],
        ranks=_ranks(hit) if explain else None,
    )


def _ranks(hit: Hit) -> dict[str, RankBody | None]:
    reranked = hit.rerank_rank is not None and hit.rerank_score is not None
    return {
        "dense": _rank(hit.dense),
        "lexical": _rank(hit.lexical),
        "fused": RankBody(rank=hit.fused_rank, score=hit.fused_score),
        "rerank": RankBody(rank=hit.rerank_rank or 0, score=hit.rerank_score or 0.0) if reranked else None,
    }


def _rank(ranked: Ranked | None) -> RankBody | None:
    return RankBody(rank=ranked.rank, score=ranked.score) if ranked else None
