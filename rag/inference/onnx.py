"""The default embedder and cross-encoder: int8 ONNX models on the CPU.

Each text is run alone. These weights are quantised dynamically, with one scale for a whole batch, so a text's
vector would depend on its neighbours; single-threaded runs side by side are as fast as batches (decision 0003).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, SessionOptions
from tokenizers import Tokenizer

from rag.errors import ModelMissing
from rag.inference.tokens import count, open_tokenizer
from rag.protocols import Score, Vectors
from rag.values import Deadline

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "  # bge v1.5 was trained with it
ENGLISH = frozenset({"en"})
MAX_TOKENS = 512  # the position embeddings of both models
MAX_QUERY_TOKENS = 128  # of a pair: a long question may not crowd out the text it is compared with
MAX_PAIR_TOKENS = 320  # longer chunks change the order little and cost twice as much

In = TypeVar("In")
Out = TypeVar("Out")


class OnnxEmbedder:
    """bge-small-en-v1.5: CLS pooling, unit vectors of 384 numbers."""

    name = "bge-small-en-v1.5-int8"
    langs: frozenset[str] | None = ENGLISH
    dims = 384
    max_tokens = MAX_TOKENS

    def __init__(self, folder: Path, threads: int) -> None:
        """Load the model in *folder*; *threads* texts are embedded at a time."""
        self._session, self._tokenizer = _load(folder)
        self._documents = _Threads(threads, "embed")
        self._queries = _Threads(1, "embed-query")  # never behind a batch

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, [CLS] and [SEP] included."""
        return count(self._tokenizer, texts)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector for each text; what lies beyond 512 tokens is not read."""
        if not texts:
            return np.zeros((0, self.dims), dtype=np.float32)
        return np.stack(await self._documents.each(self._embed, texts))

    async def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        [vector] = await self._queries.each(self._embed_question, [QUERY_PREFIX + text])
        return vector

    def _embed(self, text: str) -> Vectors:
        return self._embed_ids(_cut(self._tokenizer.encode(text).ids, MAX_TOKENS))

    def _embed_question(self, text: str) -> Vectors:
        return self._embed_ids(_ends(self._tokenizer.encode(text).ids, MAX_TOKENS))

    def _embed_ids(self, ids: list[int]) -> Vectors:
        hidden = self._session.run(None, _feed(ids, pair_at=len(ids)))[0]
        vector = np.asarray(hidden[0, 0], dtype=np.float32)
        return vector / np.linalg.norm(vector)


class OnnxReranker:
    """ms-marco-MiniLM-L-12-v2: one relevance logit for a question and a text."""

    name = "ms-marco-MiniLM-L-12-v2-int8"
    langs: frozenset[str] | None = ENGLISH

    def __init__(self, folder: Path, threads: int) -> None:
        """Load the model in *folder*; *threads* pairs are scored at a time."""
        self._session, self._tokenizer = _load(folder)
        self._pool = _Threads(threads, "rerank")

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """One logit for each text in order, but for a blank text, and for those the deadline left out."""
        question = _ends(self._tokenizer.encode(query).ids, MAX_QUERY_TOKENS)

        def one(text: str) -> Score:
            if not text.strip():
                return "failed"
            if deadline.remaining_s() == 0:
                return "deadline"
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
            room = MAX_PAIR_TOKENS - len(question) - 1
            pair = question + ids[:room] + question[-1:]  # the last id of the question is [SEP]
            return float(self._session.run(None, _feed(pair, pair_at=len(question)))[0][0, 0])

        return await self._pool.each(one, texts)


class _Threads:
    """Threads that work through lists: each takes the next item as soon as it is free."""

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self._pool = ThreadPoolExecutor(number, thread_name_prefix=name)

    async def each(self, work: Callable[[In], Out], items: Sequence[In]) -> list[Out]:
        """What *work* makes of each item, in order."""
        found: dict[int, Out] = {}
        left = iter(enumerate(items))  # a step of a built-in iterator is atomic

        def take() -> None:
            for n, item in left:
                found[n] = work(item)

        loop = asyncio.get_running_loop()
        takers = [loop.run_in_executor(self._pool, take) for _ in range(min(len(items), self._number))]
        try:
            await asyncio.gather(*takers)
        finally:
            deque(left, maxlen=0)  # when nobody waits any more, nobody takes another
        return [found[n] for n in range(len(items))]


def _load(folder: Path) -> tuple[InferenceSession, Tokenizer]:
    model, vocabulary = folder / "model.onnx", folder / "tokenizer.json"
    for file in (model, vocabulary):
        if not file.is_file():
            raise ModelMissing(f"{file} is missing; run `rag models pull`")
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return InferenceSession(model, options, providers=["CPUExecutionProvider"]), open_tokenizer(vocabulary)


def _cut(ids: list[int], size: int) -> list[int]:
    """At most *size* ids, the last one kept: it is [SEP]."""
    return ids if len(ids) <= size else [*ids[: size - 1], ids[-1]]


def _ends(ids: list[int], size: int) -> list[int]:
    """At most *size* ids, half of them from the end: what is asked may stand behind a long account of it."""
    return ids if len(ids) <= size else [*ids[: size - size // 2], *ids[-(size // 2) :]]


def _feed(ids: list[int], *, pair_at: int) -> dict[str, NDArray[np.int64]]:
    row = np.array([ids], dtype=np.int64)
    kinds = np.zeros_like(row)
    kinds[0, pair_at:] = 1
    return {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": kinds}
