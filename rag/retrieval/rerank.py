"""The cross-encoder over the fused candidates, until a deadline, and the blend of both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag.errors import SetupError, UpstreamError
from rag.protocols import Reranker
from rag.retrieval.fusion import rrf
from rag.telemetry import log
from rag.values import Chunk, ContentId, Deadline, RerankState

# Steep, since both lists order the same candidates (decision 0004).
BLEND_K = 5


async def score(
    model: Reranker, query: str, chunks: Mapping[ContentId, Chunk], *, deadline: Deadline
) -> tuple[dict[ContentId, float], RerankState]:
    """The logits of the chunks that could be scored in time, and how many those are; a model that fails scores none."""
    try:
        scores = await model.score(query, [chunk.indexed for chunk in chunks.values()], deadline)
    except (UpstreamError, SetupError) as exc:  # the fused order is an answer too
        log.warning("rerank skipped", code=exc.code, detail=exc.detail)
        return {}, "skipped"
    logits = {content: s for content, s in zip(chunks, scores, strict=True) if s is not None}
    if not logits:
        return {}, "skipped"
    return logits, "full" if len(logits) == len(chunks) else "partial"


def by_logit(fused: Sequence[ContentId], logits: dict[ContentId, float]) -> list[ContentId]:
    """The scored chunks, best logit first, ties in fused order.

    Raw logits: a sigmoid in low precision makes good candidates equal.
    """
    return sorted((chunk for chunk in fused if chunk in logits), key=lambda chunk: -logits[chunk])


def blend(
    fused: Sequence[ContentId], reranked: Sequence[ContentId], *, fused_weight: float, rerank_weight: float
) -> list[tuple[ContentId, float]]:
    """Both orders fused once more; what was not scored stands on its fused rank alone, ties in fused order."""
    place = {chunk: n for n, chunk in enumerate(fused)}
    scores = rrf([fused, reranked], weights=[fused_weight, rerank_weight], k=BLEND_K)
    return sorted(scores, key=lambda pair: (-pair[1], place[pair[0]]))
