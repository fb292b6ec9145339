"""The path of a search: what holds the quoted phrases, both legs at once, fused, checked, reranked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from rag.errors import StoreError
from rag.inference.turns import asker
from rag.protocols import Expanding, Leg, Reranker
from rag.ranking import Ranking
from rag.retrieval.expanded import ExpandedLeg
from rag.retrieval.feedback import HEAD
from rag.retrieval.hints import hints
from rag.retrieval.legs import both
from rag.retrieval.order import Order, varied
from rag.retrieval.phrases import Holding, holding, phrases
from rag.retrieval.rerank import score
from rag.store.compaction import numbering
from rag.store.engine import Database
from rag.store.search import known_vectors, load_chunks, still_visible
from rag.telemetry import Stopwatch, log
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

HINTS_S = 0.5  # for looking at the documents of a tenant once or twice


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
        order = Order.of(dense, lexical, self._ranking.of(dense.tuning))
        hits, reason = await self._hits(tenant_id, question, order, clock)
        complete = dense.complete and lexical.complete
        hinted: tuple[str, ...] = ()
        if not hits:
            hinted = await clock.timed("hints", self._hints(tenant_id, question, missing, complete=complete))
        return Retrieval(
            hits=tuple(hits[: question.top_k]),
            complete=complete,
            rerank=_how_far(hits, reason),
            rerank_reason=reason,
            index_version=min(dense.index_version, lexical.index_version),
            timings_ms=clock.total(),
            expansion=question.expansion,
            expansion_state=question.expansion_state,
            missing_phrases=missing,
            hints=hinted,
        )

    async def _hints(
        self, tenant_id: TenantId, question: Question, missing: Sequence[str], *, complete: bool
    ) -> tuple[str, ...]:
        """Why nothing was found, if that can be told soon: the search itself is done."""
        try:
            async with asyncio.timeout(HINTS_S), self._database.reading(tenant_id) as tx:
                return await hints(tx, question, missing, complete=complete)
        except (TimeoutError, StoreError) as exc:
            log.warning("no hints", reason=repr(exc))
            return ()

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

    async def _hits(
        self, tenant_id: TenantId, question: Question, order: Order, clock: Stopwatch
    ) -> tuple[list[Hit], RerankReason | None]:
        """The hits, as many as the question takes or more, and why not all were reranked, where they were not."""
        reason = self._left_out(question)
        if reason and question.top_k <= HEAD:
            first, chunks = await clock.timed("load", self._loaded(tenant_id, question, order.first(question.top_k)))
            hits = first.hits(chunks, {})
            if len(hits) == min(question.top_k, len(order.fused)) and varied(hits, question.text) is hits:
                return hits, reason  # those that follow change nothing
        order, chunks = await clock.timed("load", self._loaded(tenant_id, question, order))
        logits: dict[ContentId, float] = {}
        if not reason:
            candidates = {content: chunks[content] for content in order.fused}
            logits, reason = await clock.timed("rerank", self._rerank(question, candidates))
        hits = order.hits(chunks, logits)
        if logits:  # that took a while
            hits = await self._still_visible(tenant_id, question, hits, generation=order.generation)
        # now: what is gone is repeated by nobody; in a thread, where a hundred that are alike take half a second
        return await asyncio.to_thread(varied, hits, question.text), reason

    async def _loaded(
        self, tenant_id: TenantId, question: Question, order: Order
    ) -> tuple[Order, dict[ContentId, Chunk]]:
        """The order among the chunks that are still there, with feedback, and these chunks, read last."""
        contents, generation = list(order.fused), order.generation
        async with self._database.reading(tenant_id) as tx:
            vectors = await known_vectors(tx, contents, generation=generation) if order.takes_feedback else {}
            chunks = await load_chunks(tx, question.scope, contents, generation=generation)
        order = order.among(chunks)
        return (order.with_feedback(vectors) if vectors else order), chunks

    async def _still_visible(
        self, tenant_id: TenantId, question: Question, hits: list[Hit], *, generation: int
    ) -> list[Hit]:
        async with self._database.reading(tenant_id) as tx:
            shown = [hit.chunk.chunk_id for hit in hits]
            visible = await still_visible(tx, question.scope, shown, generation=generation)
        return [hit for hit in hits if hit.chunk.chunk_id in visible]

    def _left_out(self, question: Question) -> RerankReason | None:
        """Why the cross-encoder is not to read anything for the question."""
        if not question.rerank:
            return "not_asked"
        return None if self._ranking.rerank_top else "switched_off"

    async def _rerank(
        self, question: Question, chunks: Mapping[ContentId, Chunk]
    ) -> tuple[dict[ContentId, float], RerankReason | None]:
        """The logits of the first *chunks*, and why there are not all of them, where there are not."""
        if not chunks:
            return {}, "nothing_found"
        candidates = dict(islice(chunks.items(), self._ranking.rerank_top))
        deadline = Deadline.after(self._ranking.rerank_deadline_s)
        return await score(self._reranker, question.text, candidates, deadline=deadline)


def _how_far(hits: list[Hit], reason: RerankReason | None) -> RerankState:
    if reason is None:
        return "full"
    return "skipped" if all(hit.rerank_score is None for hit in hits) else "partial"
