"""The rest of an order by what its best are like: pseudo-relevance feedback (Rocchio, 1971), on vectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rag.protocols import Vectors
from rag.retrieval.fusion import scaled
from rag.values import ContentId

HEAD = 20  # stay as they are: nearness to the best moves what answers a question down there (decision 0025)
BEST = 5


def by_the_best(
    fused: Mapping[ContentId, float], vectors: Mapping[ContentId, Vectors], *, weight: float
) -> dict[ContentId, float]:
    """The fused order, what follows the first HEAD sorted by its score and *weight* times its nearness to the BEST.

    Nearness is the cosine to the mean of the best's *vectors*, weighted by their scores, scaled to 0..1 over all; what
    has no vector has 0. The scores stay what they are, dealt anew among the rest: no hit has a better one than the hit
    before it.
    """
    order = list(fused)
    rest = order[HEAD:]
    near = scaled(_nearness(fused, vectors))
    moved = sorted(rest, key=lambda content: -(fused[content] + weight * near.get(content, 0.0)))
    return {content: fused[kept] for content, kept in zip([*order[:HEAD], *moved], order, strict=True)}


def _nearness(fused: Mapping[ContentId, float], vectors: Mapping[ContentId, Vectors]) -> dict[ContentId, float]:
    known = [content for content in fused if content in vectors]
    if not known:
        return {}
    rows = np.stack([vectors[content] for content in known]).astype(np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    shares = np.array([fused[content] for content in known[:BEST]], np.float32)
    return dict(zip(known, (rows @ (shares @ rows[:BEST])).tolist(), strict=True))
