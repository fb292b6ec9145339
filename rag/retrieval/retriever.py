"""The path of a search: what holds the quoted phrases, both legs at once, fused, checked, reranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from rag.inference.turns import asker
from rag.protocols import Expanding, Leg, Reranker
from rag.ranking import Ranking
from rag.retrieval.expanded import ExpandedLeg
from rag.retrieval.fusion import by_scores, rrf, scaled
from rag.retrieval.legs import both
from rag.retrieval.phrases import Holding, holding, phrases
from rag.retrieval.repeats import repeats
from rag.retrieval.rerank import blend, by_logit, score
from rag.store.compaction import numbering
from rag.store.engine import Database
from rag.store.search import load_chunks, still_visible
from rag.telemetry import Stopwatch
from rag.values import (
    Chunk,
    ContentId,
    Deadline,
    Hit,
    LegResult,
    Question,
    RerankReason,
    RerankState,
    Retrieval,
    TenantId,
)

FOREIGN_WEIGHT = 0.5  # of an embedder that does not know the question's language, beside words that do


class Retriever:
    """Ranked chunks for a question."""

    def __init__(
        self,
        database: Database,
        *,
        dense: Leg,
        lexical: Leg,
        reranker: Reranker,
        ranking: Ranking,
        expanding: Expanding | None = None,
    ) -> None:
        """Search *database* by both legs, for what *expanding* makes of a question."""
        self._database = database
        self._dense = ExpandedLeg(dense) if expanding else dense
        self._lexical = ExpandedLeg(lexical) if expanding else lexical
        self._reranker = reranker
        self._ranking = ranking
        self._expanding = expanding

    async def retrieve(self, tenant_id: TenantId, question: Question) -> Retrieval:
        """The best `top_k` chunks; the order does not depend on `top_k`."""
        asker.set(tenant_id)  # of the cross-encoder; also for what an answer asks of it afterwards
        clock = Stopwatch()
        if self._expanding:
            question = await clock.timed("expansion", self._expanding(tenant_id, question))
        elif question.recall == "high":
            question = replace(question, expansion_state="no_chain")
        dense, lexical, missing = await self._candidates(tenant_id, question, clock)
        ranking = self._ranking.of(dense.tuning)
        fused = _fuse(dense, lexical, ranking)
        generation = dense.generation
        with clock.running("load"):
            chunks = await self._load(tenant_id, question, list(fused), generation=generation)
        fused = {content: s for content, s in fused.items() if content in chunks}  # the rest were deleted meanwhile
        with clock.running("rerank"):
            logits, reason = await self._rerank(question, {content: chunks[content] for content in fused})
        hits = _hits(fused, chunks, logits, legs=(dense, lexical), ranking=ranking)
        if logits:  # that took a while
            async with self._database.reading(tenant_id) as tx:
                shown = [hit.chunk.chunk_id for hit in hits]
                visible = await still_visible(tx, question.scope, shown, generation=generation)
            hits = [hit for hit in hits if hit.chunk.chunk_id in visible]
        hits = _varied(hits, question)  # now: what is gone is repeated by nobody
        return Retrieval(
            hits=tuple(hits[: question.top_k]),
            complete=dense.complete and lexical.complete,
            rerank=_how_far(logits, reason),
            rerank_reason=reason,
            index_version=min(dense.index_version, lexical.index_version),
            timings_ms=clock.total(),
            expansion=question.expansion,
            expansion_state=question.expansion_state,
            missing_phrases=missing,
        )

    async def _candidates(
        self, tenant_id: TenantId, question: Question, clock: Stopwatch
    ) -> tuple[LegResult, LegResult, tuple[str, ...]]:
        """What each leg finds of one index among the chunks that hold what the question quotes, and what none holds."""
        wanted = phrases(question.text)
        deadline = Deadline.after(self._ranking.leg_deadline_s)
        while True:  # again when the tenant's index was switched, or its chunks numbered anew, meanwhile
            held = None
            if wanted:
                held = await clock.timed("phrases", holding(self._database, tenant_id, question.scope, wanted))
            within = held.ords if held else None
            dense, lexical = await both(
                clock.timed("dense", self._dense(tenant_id, question, self._ranking.depth, within=within)),
                clock.timed("lexical", self._lexical(tenant_id, question, self._ranking.depth, within=within)),
                deadline=deadline,
            )
            if dense.generation != lexical.generation or (held and await self._is_outdated(tenant_id, held, dense)):
                continue
            if held and not held.complete:
                dense = replace(dense, complete=False)
            return dense, lexical, held.missing if held else ()

    async def _is_outdated(self, tenant_id: TenantId, held: Holding, leg: LegResult) -> bool:
        """Whether the ordinals of what holds the phrases are of another index or numbering than the tenant has now."""
        async with self._database.reading(tenant_id) as tx:
            return held.generation != leg.generation or held.numbering != (await numbering(tx)).times

    async def _load(
        self, tenant_id: TenantId, question: Question, contents: list[ContentId], *, generation: int
    ) -> dict[ContentId, Chunk]:
        """The chunks of *contents* that are still there, as many of the first as the question takes."""
        async with self._database.reading(tenant_id) as tx:
            if not question.rerank:
                first = contents[: question.top_k]
                found = await load_chunks(tx, question.scope, first, generation=generation)
                chunks = {content: found[content] for content in first if content in found}
                if len(chunks) == len(first) and not any(repeats([*chunks.values()], question.text)):
                    return chunks
            return await load_chunks(tx, question.scope, contents, generation=generation)

    async def _rerank(
        self, question: Question, chunks: Mapping[ContentId, Chunk]
    ) -> tuple[dict[ContentId, float], RerankReason | None]:
        """The logits of the first *chunks*, and why there are not all of them, where there are not."""
        if not question.rerank:
            return {}, "not_asked"
        if not chunks:
            return {}, "nothing_found"
        candidates = dict(islice(chunks.items(), self._ranking.rerank_top))
        if not candidates:
            return {}, "switched_off"
        deadline = Deadline.after(self._ranking.rerank_deadline_s)
        return await score(self._reranker, question.text, candidates, deadline=deadline)


def _fuse(dense: LegResult, lexical: LegResult, ranking: Ranking) -> dict[ContentId, float]:
    dense_weight = ranking.dense_weight * (1.0 if dense.fits else FOREIGN_WEIGHT)
    weights = [dense_weight, ranking.lexical_weight]
    return dict((rrf if ranking.fusion == "rrf" else by_scores)([dense, lexical], weights=weights))


def _hits(
    fused: dict[ContentId, float],
    chunks: dict[ContentId, Chunk],
    logits: dict[ContentId, float],
    *,
    legs: tuple[LegResult, LegResult],
    ranking: Ranking,
) -> list[Hit]:
    dense, lexical = ({ranked.content: ranked for ranked in leg.ranked} for leg in legs)
    fused_at = {content: rank for rank, content in enumerate(fused, 1)}
    reranked = by_logit(list(fused), logits)
    reranked_at = {content: rank for rank, content in enumerate(reranked, 1)}
    order = list(fused.items())
    if reranked:
        weights = {"fused_weight": ranking.fused_weight, "rerank_weight": ranking.rerank_weight}
        # reciprocal ranks are small numbers beside a relevance
        order = blend(scaled(fused, floor=0.0) if ranking.fusion == "rrf" else fused, logits, **weights)
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


def _varied(hits: list[Hit], question: Question) -> list[Hit]:
    """The hits, those after the others that say what a better one says, with no better score than the others."""
    repeated = repeats([hit.chunk for hit in hits], question.text)
    if not any(repeated):
        return hits
    first = [hit for hit, again in zip(hits, repeated, strict=True) if not again]
    last = [hit for hit, again in zip(hits, repeated, strict=True) if again]
    return [*first, *(replace(hit, score=min(hit.score, first[-1].score)) for hit in last)]


def _how_far(logits: Mapping[ContentId, float], reason: RerankReason | None) -> RerankState:
    if reason is None:
        return "full"
    return "partial" if logits else "skipped"
