"""Reciprocal rank fusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from rag.values import ContentId

RRF_K = 60  # Cormack, Clarke and Buettcher, 2009; change it only with an eval report beside the diff


Id = TypeVar("Id", str, ContentId)


def rrf(rankings: Sequence[Sequence[Id]], *, weights: Sequence[float], k: float = RRF_K) -> list[tuple[Id, float]]:
    """Every id of any ranking with `sum w_r / (k + rank_r)`, best first.

    Ranks count from 1; an id missing from a ranking earns nothing from it; ties go by best rank, then by id.
    Raises ValueError for weights that are negative, not finite or all zero.
    """
    if len(weights) != len(rankings) or any(not math.isfinite(w) or w < 0 for w in weights) or not any(weights):
        raise ValueError("one weight for each ranking, none negative, at least one above zero")
    scores: dict[Id, float] = {}
    best: dict[Id, int] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if weight == 0:
            continue  # no effect at all, not even a place at the end
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + weight / (k + rank)
            best[item] = min(rank, best.get(item, rank))
    return sorted(scores.items(), key=lambda pair: _order(pair, best))


def _order(pair: tuple[Id, float], best: Mapping[Id, int]) -> tuple[float, int, Id]:
    item, score = pair
    return (-score, best[item], item)
