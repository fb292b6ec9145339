"""Embedder and cross-encoder by sentence-transformers: any name or local folder, on a GPU if there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rag.errors import ModelMissing, SetupError
from rag.protocols import Score, Vectors
from rag.values import Deadline

BATCH = 8  # small enough to look at the clock between batches
DEFAULT_MAX_TOKENS = 512  # of a model that states none


class SentenceTransformerEmbedder:
    """Unit vectors of a bi-encoder; the model's own `query` prompt goes before questions."""

    langs: frozenset[str] | None = None

    def __init__(self, name: str) -> None:
        """Load the model *name*.

        Raises SetupError without the extra, ModelMissing when the model cannot be had.
        """
        self._model = _load("SentenceTransformer", name)
        self.name = f"sentence-transformers:{name}"
        self.dims = int(self._model.get_embedding_dimension())
        self.max_tokens = int(self._model.max_seq_length or DEFAULT_MAX_TOKENS)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sentence-transformers")  # torch has threads of its own

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, the model's marks included."""
        return [len(ids) for ids in self._model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector for each text."""
        if not texts:
            return np.zeros((0, self.dims), dtype=np.float32)
        return await self._run(self._model.encode_document, list(texts))

    async def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        [vector] = await self._run(self._model.encode_query, [text])
        return np.asarray(vector)

    async def _run(self, encode: Any, texts: list[str]) -> Vectors:
        def work() -> Vectors:
            vectors = encode(texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False)
            return np.asarray(vectors, dtype=np.float32)

        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


class SentenceTransformerReranker:
    """Logits of a cross-encoder with one label, in batches of similar length."""

    langs: frozenset[str] | None = None

    def __init__(self, name: str) -> None:
        """Load the model *name*; raises as the embedder does."""
        self._model = _load("CrossEncoder", name)
        self.name = f"sentence-transformers:{name}"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sentence-transformers")

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """One logit for each text in order, but for a blank text, and for those the deadline left out."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._score, query, list(texts), deadline)

    def _score(self, query: str, texts: list[str], deadline: Deadline) -> list[Score]:
        from torch.nn import Identity  # noqa: PLC0415 - the extra brings it

        scores: list[Score] = ["deadline" if text.strip() else "failed" for text in texts]
        order = sorted((n for n, text in enumerate(texts) if text.strip()), key=lambda n: len(texts[n]))
        for at in range(0, len(order), BATCH):
            if deadline.remaining_s() == 0:
                break
            batch = order[at : at + BATCH]
            pairs = [(query, texts[n]) for n in batch]
            logits = self._model.predict(pairs, batch_size=BATCH, activation_fn=Identity(), show_progress_bar=False)
            for n, logit in zip(batch, logits, strict=True):
                scores[n] = float(logit)
        return scores


def _load(kind: str, name: str) -> Any:
    try:
        import sentence_transformers  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise SetupError(
            f"the model {name!r} needs the extra: pip install 'rag-service[sentence-transformers]'"
        ) from exc
    try:
        return getattr(sentence_transformers, kind)(name)
    except (OSError, ValueError) as exc:
        reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
        raise ModelMissing(f"the model {name!r} cannot be loaded: {reason}") from exc
