"""A cross-encoder that remembers: a question asked again, or answered after a search, costs nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from rag.protocols import Reranker, Score
from rag.values import Deadline

# A digest, a score and their place in a dictionary: 150 to 275 bytes as it grows and shrinks, 310 while it moves. The
# texts are not kept, so that long ones take no more.
PAIR_BYTES = 320


class RememberingReranker:
    """Another reranker's scores, each pair computed once."""

    def __init__(self, model: Reranker, *, memory_bytes: int) -> None:
        """Ask *model*, and keep as many of its latest scores as fit into *memory_bytes*."""
        self.name = model.name
        self.langs = model.langs
        self._model = model
        self._scores: OrderedDict[bytes, float] = OrderedDict()
        self._size = memory_bytes // PAIR_BYTES

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """One logit for each text in order, or why the model gave none."""
        pairs = [_digest(query, text) for text in texts]
        known = [self._scores.get(pair) for pair in pairs]
        missing = [n for n, score in enumerate(known) if score is None]
        asked = await self._model.score(query, [texts[n] for n in missing], deadline) if missing else []
        fresh = dict(zip(missing, asked, strict=True))
        for n, score in fresh.items():
            if isinstance(score, float):
                self._remember(pairs[n], score)
        return [fresh[n] if score is None else score for n, score in enumerate(known)]

    def _remember(self, pair: bytes, score: float) -> None:
        self._scores[pair] = score
        if len(self._scores) > self._size:
            self._scores.popitem(last=False)


def _digest(query: str, text: str) -> bytes:
    return blake2b(f"{len(query)}\n{query}{text}".encode(errors="surrogatepass"), digest_size=16).digest()
