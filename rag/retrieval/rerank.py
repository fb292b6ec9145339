"""The cross-encoder over the fused candidates, until a deadline, and the blend of both orders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from rag.errors import SetupError, UpstreamError
from rag.protocols import Reranker
from rag.retrieval.fusion import scaled
from rag.telemetry import log
from rag.values import Chunk, ContentId, Deadline, Unscored

SOFTNESS = 2.0  # logits: a steeper curve takes the good for the best, a flatter one tells nothing (decision 0012)


async def score(
    model: Reranker, query: str, chunks: Mapping[ContentId, Chunk], *, deadline: Deadline
) -> tuple[dict[ContentId, float], Unscored | None]:
    """The logits of the chunks that could be scored in time, and why most of the others could not.

    A model that fails scores none. A score that is not finite is none: half precision overflows, and what is compared
    with NaN has no order.
    """
    try:
        scores = await model.score(query, [chunk.indexed for chunk in chunks.values()], deadline)
    except (UpstreamError, SetupError) as exc:  # the fused order is an answer too
        log.warning("rerank skipped", code=exc.code, detail=exc.detail)
        return {}, "failed"
    logits: dict[ContentId, float] = {}
    reasons: Counter[Unscored] = Counter()
    for content, found in zip(chunks, scores, strict=True):
        if not isinstance(found, float):
            reasons[found] += 1
        elif math.isfinite(found):
            logits[content] = found
        else:
            reasons["failed"] += 1
    return logits, max(reasons, key=reasons.__getitem__, default=None)


def by_logit(fused: Sequence[ContentId], logits: Mapping[ContentId, float]) -> list[ContentId]:
    """The scored chunks, best logit first, ties in fused order.

    Raw logits: a sigmoid in low precision makes good candidates equal.
    """
    return sorted((chunk for chunk in fused if chunk in logits), key=lambda chunk: -logits[chunk])


def blend(
    fused: Mapping[ContentId, float], logits: Mapping[ContentId, float], *, fused_weight: float, rerank_weight: float
) -> list[tuple[ContentId, float]]:
    """The weighted mean of the fused score and the relevance, best first, ties in fused order.

    What was not scored counts as the worst that was.
    """
    relevant = relevance(logits)
    least = min(relevant.values())
    total = fused_weight + rerank_weight
    scores = {
        content: (fused_weight * score + rerank_weight * relevant.get(content, least)) / total
        for content, score in fused.items()
    }
    return sorted(scores.items(), key=lambda pair: -pair[1])


def relevance(logits: Mapping[ContentId, float]) -> dict[ContentId, float]:
    """The logits as 0..1: half how each compares with the others, half how sure the model is of it by itself."""
    sure = {content: (1 + math.tanh(logit / SOFTNESS / 2)) / 2 for content, logit in logits.items()}  # the logistic
    return {content: (compared + sure[content]) / 2 for content, compared in scaled(logits).items()}
