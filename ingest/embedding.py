"""Vectors for what chunks say: each text once, the longest first, and one that is refused costs no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

import numpy as np

from rag.errors import CallerError
from rag.protocols import Embedder, Vectors
from rag.values import ContentId

SLICE = 32  # texts between two looks at who still wants them

Embedded = dict[ContentId, Vectors | str]  # a vector of (dims,), or why there is none


async def embed(embedder: Embedder, texts: Mapping[ContentId, str]) -> AsyncIterator[Embedded]:
    """The texts' vectors, slice by slice; a text that is taken out of *texts* meanwhile is left out.

    Raises UpstreamError when the embedder itself fails.
    """
    # the longest first, so that no thread is left alone with one at the end
    order = iter(sorted(texts, key=lambda content: (-len(texts[content]), content)))
    while part := list(islice((content for content in order if content in texts), SLICE)):
        yield dict(zip(part, await _vectors(embedder, [texts[content] for content in part]), strict=True))


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | str]:
    """A vector or a reason for each text; a batch that is refused is halved until the one at fault stands alone."""
    try:
        rows = await embedder.embed_documents(texts)
    except CallerError as exc:
        if len(texts) == 1:
            return [exc.detail]
        middle = len(texts) // 2
        return [*await _vectors(embedder, texts[:middle]), *await _vectors(embedder, texts[middle:])]
    return [row if _points_somewhere(row) else "its vector is zero or not finite" for row in rows]


def _points_somewhere(row: Vectors) -> bool:
    """A vector without a direction is near nothing, and would sort before every other."""
    norm = float(np.linalg.norm(row))
    return bool(np.isfinite(norm)) and norm > 0
