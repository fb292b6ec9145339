"""One order from several that have scores: each scaled to 0..1, and their weighted mean.

How far a leg's best stands out says how sure it is, which ranks do not tell (decision 0012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rag.values import ContentId, LegResult


def fuse(legs: Sequence[LegResult], *, weights: Sequence[float]) -> list[tuple[ContentId, float]]:
    """Every content of a leg that has weight, with the weighted mean of its scaled scores, best first.

    A leg gives 1 to its best and 0 to what it has not; ties go by best rank, then by id. Raises ValueError for weights
    that are negative, not finite or all zero.
    """
    if len(weights) != len(legs) or any(not math.isfinite(w) or w < 0 for w in weights) or not any(weights):
        raise ValueError("one weight for each leg, none negative, at least one above zero")
    scores: dict[ContentId, float] = {}
    best: dict[ContentId, int] = {}
    for leg, weight in zip(legs, weights, strict=True):
        if weight == 0:
            continue  # no effect at all, not even a place at the end
        found = scaled({ranked.content: ranked.score for ranked in leg.ranked}, floor=leg.floor)
        for ranked in leg.ranked:
            content = ranked.content
            scores[content] = scores.get(content, 0.0) + found[content] * weight / sum(weights)
            best[content] = min(ranked.rank, best.get(content, ranked.rank))
    return sorted(scores.items(), key=lambda pair: (-pair[1], best[pair[0]], pair[0]))


def scaled(scores: Mapping[ContentId, float], *, floor: float | None = None) -> dict[ContentId, float]:
    """The scores with 1 for the highest and 0 for *floor*, by default the lowest; 1 for all where both are the same."""
    if not scores:
        return {}
    high, low = max(scores.values()), min(scores.values()) if floor is None else floor
    return {content: (score - low) / (high - low) if high > low else 1.0 for content, score in scores.items()}
