"""The path of a search: what holds the quoted phrases, both legs at once, fused, checked, reranked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from rag.protocols import Leg, Ordinals, Reranker
from rag.retrieval.fusion import rrf
from rag.retrieval.phrases import holding, phrases
from rag.retrieval.rerank import blend, by_logit, score
from rag.store.engine import Database
from rag.store.search import load_chunks, still_visible
from rag.telemetry import Stopwatch
from rag.values import Chunk, ContentId, Deadline, Hit, LegResult, Question, RerankState, Retrieval, TenantId

DEPTH = 50  # of each leg; recall@50 is what the rest can work with


@dataclass(frozen=True, slots=True)
class Ranking:
    """The weights of the ranking, and how much of it the cross-encoder does."""

    rerank_top: int
    rerank_deadline_s: float
    rerank_weight: float
    fused_weight: float


class Retriever:
    """Ranked chunks for a question."""

    def __init__(self, database: Database, *, dense: Leg, lexical: Leg, reranker: Reranker, ranking: Ranking) -> None:
        """Search *database* by both legs."""
        self._database = database
        self._dense = dense
        self._lexical = lexical
        self._reranker = reranker
        self._ranking = ranking

    async def retrieve(self, tenant_id: TenantId, question: Question) -> Retrieval:
        """The best `top_k` chunks; the order does not depend on `top_k`."""
        clock = Stopwatch()
        dense, lexical = await self._candidates(tenant_id, question, clock)
        fused = self._fuse(dense, lexical)
        generation = dense.generation
        with clock.running("load"):
            chunks = await self._load(tenant_id, question, list(fused), generation=generation)
        fused = {content: s for content, s in fused.items() if content in chunks}  # the rest were deleted meanwhile
        with clock.running("rerank"):
            logits, how = await self._rerank(question, {content: chunks[content] for content in fused})
        hits = self._hits(fused, chunks, logits, legs=(dense, lexical))
        if logits:  # that took a while
            async with self._database.reading(tenant_id) as tx:
                shown = [hit.chunk.chunk_id for hit in hits]
                visible = await still_visible(tx, question.scope, shown, generation=generation)
            hits = [hit for hit in hits if hit.chunk.chunk_id in visible]
        return Retrieval(
            hits=tuple(hits[: question.top_k]),
            complete=dense.complete and lexical.complete,
            rerank=how,
            index_version=min(dense.index_version, lexical.index_version),
            timings_ms=clock.total(),
        )

    async def _candidates(
        self, tenant_id: TenantId, question: Question, clock: Stopwatch
    ) -> tuple[LegResult, LegResult]:
        """What each leg finds of one index, among the chunks that hold what the question quotes."""
        wanted = phrases(question.text)
        while True:  # again when the tenant's index was switched meanwhile
            held = None
            if wanted:
                held = await clock.timed("phrases", holding(self._database, tenant_id, question.scope, wanted))
            dense, lexical = await self._legs(tenant_id, question, clock, within=held.ords if held else None)
            if dense.generation != lexical.generation or (held and held.generation != dense.generation):
                continue
            if held and not held.complete:
                dense = replace(dense, complete=False)
            return dense, lexical

    async def _legs(
        self, tenant_id: TenantId, question: Question, clock: Stopwatch, *, within: Ordinals | None
    ) -> tuple[LegResult, LegResult]:
        dense = clock.timed("dense", self._dense(tenant_id, question, DEPTH, within=within))
        lexical = clock.timed("lexical", self._lexical(tenant_id, question, DEPTH, within=within))
        return await asyncio.gather(dense, lexical)

    def _fuse(self, dense: LegResult, lexical: LegResult) -> dict[ContentId, float]:
        rankings = [[ranked.content for ranked in leg.ranked] for leg in (dense, lexical)]
        return dict(rrf(rankings, weights=[1, 1]))

    async def _load(
        self, tenant_id: TenantId, question: Question, contents: list[ContentId], *, generation: int
    ) -> dict[ContentId, Chunk]:
        """The chunks of *contents* that are still there, as many of the first as the question takes."""
        async with self._database.reading(tenant_id) as tx:
            if not question.rerank:
                first = contents[: question.top_k]
                chunks = await load_chunks(tx, question.scope, first, generation=generation)
                if len(chunks) == len(first):
                    return chunks
            return await load_chunks(tx, question.scope, contents, generation=generation)

    async def _rerank(
        self, question: Question, chunks: Mapping[ContentId, Chunk]
    ) -> tuple[dict[ContentId, float], RerankState]:
        candidates = dict(islice(chunks.items(), self._ranking.rerank_top))
        if not question.rerank or not candidates:
            return {}, "skipped"
        deadline = Deadline.after(self._ranking.rerank_deadline_s)
        return await score(self._reranker, question.text, candidates, deadline=deadline)

    def _hits(
        self,
        fused: dict[ContentId, float],
        chunks: dict[ContentId, Chunk],
        logits: dict[ContentId, float],
        *,
        legs: tuple[LegResult, LegResult],
    ) -> list[Hit]:
        dense, lexical = ({ranked.content: ranked for ranked in leg.ranked} for leg in legs)
        fused_at = {content: rank for rank, content in enumerate(fused, 1)}
        reranked = by_logit(list(fused), logits)
        reranked_at = {content: rank for rank, content in enumerate(reranked, 1)}
        order = list(fused.items())
        if reranked:
            weights = {"fused_weight": self._ranking.fused_weight, "rerank_weight": self._ranking.rerank_weight}
            order = blend(list(fused), reranked, **weights)
        return [
            Hit(
                chunk=chunks[content],
                score=final,
                fused_rank=fused_at[content],
                fused_score=fused[content],
                dense=dense.get(content),
                lexical=lexical.get(content),
                rerank_rank=reranked_at.get(content),
                rerank_score=logits.get(content),
            )
            for content, final in order
        ]
