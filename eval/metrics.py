"""The formulas. What does not apply is None, never 0.

A ranking is given as the rank, from 1, at which each relevant item was first found (None: not found).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log2

Ranks = Sequence[int | None]


def recall(ranks: Ranks, k: int) -> float | None:
    """Share of the relevant items among the first *k* (Manning et al., Introduction to Information Retrieval, 8.3)."""
    return ratio(sum(rank is not None and rank <= k for rank in ranks), len(ranks))


def reciprocal_rank(ranks: Ranks, k: int) -> float | None:
    """1 / rank of the first relevant item, 0 beyond *k* (Voorhees, TREC-8 question answering track, 1999)."""
    if not ranks:
        return None
    first = min((rank for rank in ranks if rank), default=k + 1)
    return 1 / first if first <= k else 0.0


def ndcg(ranks: Ranks, k: int, gains: Sequence[float] = ()) -> float | None:
    """Discounted gain over the best possible (Järvelin and Kekäläinen 2002; gain / log2(1 + rank), as trec_eval does).

    *gains* runs beside *ranks*, 1 each when not given. The ideal knows every relevant item, found or not. Where one
    result holds several items, the j-th best item counts at rank max(rank, j): no order of results exceeds 1.
    """
    gains = gains or [1.0] * len(ranks)
    ideal = sum(gain * _discount(place, k) for place, gain in enumerate(sorted(gains, reverse=True), 1))
    found = sorted((rank, -gain) for rank, gain in zip(ranks, gains, strict=True) if rank)
    return ratio(sum(-loss * _discount(max(rank, place), k) for place, (rank, loss) in enumerate(found, 1)), ideal)


def ratio(part: float, whole: float) -> float | None:
    """*part* / *whole*; None of nothing."""
    return part / whole if whole else None


def mean(values: Iterable[float | None]) -> float | None:
    """The arithmetic mean of the values that apply."""
    applicable = [value for value in values if value is not None]
    return ratio(sum(applicable), len(applicable))


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that *percent* of all do not exceed (nearest rank)."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1] if values else None


def _discount(rank: int, k: int) -> float:
    return 1 / log2(rank + 1) if rank <= k else 0.0
