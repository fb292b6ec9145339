"""One order from several: by their scores, or by their ranks alone.

How far a leg's best stands out says how sure it is, which ranks do not tell (decision 0012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rag.values import ContentId, LegResult

RRF_K = 60  # Cormack, Clarke and Buettcher, 2009; change it only with an eval report beside the diff

Fused = list[tuple[ContentId, float]]
Worth = Callable[[LegResult], Mapping[ContentId, float]]


def by_scores(legs: Sequence[LegResult], *, weights: Sequence[float]) -> Fused:
    """Every content of a leg that has weight, with the weighted mean of its scores, each leg's scaled to 0..1.

    A leg gives 1 to its best and 0 to what it has not; order, ties and errors are those of `rrf`.
    """
    total = sum(weights) or 1.0
    return _sums(legs, [weight / total for weight in weights], _scaled_scores)


def rrf(legs: Sequence[LegResult], *, weights: Sequence[float]) -> Fused:
    """Every content of a leg that has weight, with its `sum w_r / (60 + rank_r)`, best first.

    A content missing from a leg earns nothing from it; ties go by best rank, then by id. Raises ValueError for weights
    that are negative, not finite or all zero.
    """
    return _sums(legs, weights, _reciprocal_ranks)


def scaled(scores: Mapping[ContentId, float], *, floor: float | None = None) -> dict[ContentId, float]:
    """The scores with 1 for the highest and 0 for *floor*, by default the lowest; 1 for all where both are the same."""
    if not scores:
        return {}
    high, low = max(scores.values()), min(scores.values()) if floor is None else floor
    return {content: (score - low) / (high - low) if high > low else 1.0 for content, score in scores.items()}


def _sums(legs: Sequence[LegResult], weights: Sequence[float], worth: Worth) -> Fused:
    if len(weights) != len(legs) or any(not math.isfinite(w) or w < 0 for w in weights) or not any(weights):
        raise ValueError("one weight for each leg, none negative, at least one above zero")
    scores: dict[ContentId, float] = {}
    best: dict[ContentId, int] = {}
    for leg, weight in zip(legs, weights, strict=True):
        if weight == 0:
            continue  # no effect at all, not even a place at the end
        found = worth(leg)
        for ranked in leg.ranked:
            content = ranked.content
            scores[content] = scores.get(content, 0.0) + found[content] * weight
            best[content] = min(ranked.rank, best.get(content, ranked.rank))
    return sorted(scores.items(), key=lambda pair: (-pair[1], best[pair[0]], pair[0]))


def _scaled_scores(leg: LegResult) -> Mapping[ContentId, float]:
    return scaled({ranked.content: ranked.score for ranked in leg.ranked}, floor=leg.floor)


def _reciprocal_ranks(leg: LegResult) -> Mapping[ContentId, float]:
    return {ranked.content: 1 / (RRF_K + ranked.rank) for ranked in leg.ranked}
