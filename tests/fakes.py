"""Stand-ins for the models: deterministic, instant, and able to fail or dawdle on demand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from hashlib import blake2b

import numpy as np

from ingest.blocks import Parsed
from ingest.parsers import parse
from rag.calls import Call, ChatRequest, Reply, Usage
from rag.protocols import Embedder, Score, Vectors
from rag.values import Deadline

_WORD = re.compile(r"\w+")
MARKS = 2  # begin and end of text


class FakeEmbedder:
    """Unit vectors by hashed words: texts that share words are near, and equal texts are equal."""

    name = "fake-embedder"
    langs: frozenset[str] | None = None
    dims = 384
    max_tokens = 512

    def __init__(self, error: Exception | None = None, delay_s: float = 0.0) -> None:
        self.error = error
        self.delay_s = delay_s
        self.embedded: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + MARKS for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        self.embedded += texts
        return np.stack([unit_vector(text) for text in texts]) if texts else np.zeros((0, self.dims), np.float32)

    async def embed_query(self, text: str) -> Vectors:
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        return unit_vector(text)


def embedders(embedder: Embedder | None = None) -> dict[str, Embedder]:
    """One embedder, by its name: a new FakeEmbedder when none is given."""
    embedder = embedder or FakeEmbedder()
    return {embedder.name: embedder}


class FakeReranker:
    """Logits by shared words, 10 (share of the question's words in the text) - 5; the first *limit* texts only."""

    name = "fake-reranker"
    langs: frozenset[str] | None = None

    def __init__(
        self,
        error: Exception | None = None,
        *,
        limit: int | None = None,
        logit: Callable[[str, str], float] | None = None,
    ) -> None:
        self.error = error
        self.limit = limit
        self.logit = logit or _shared_words
        self.calls: list[tuple[str, list[str]]] = []

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        if self.error is not None:
            raise self.error
        self.calls.append((query, list(texts)))
        limit = len(texts) if self.limit is None else self.limit
        return [self.logit(query, text) if n < limit else "deadline" for n, text in enumerate(texts)]


class StreamedChat:
    """A chat model whose whole reply is what its stream ends with."""

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        return [item async for item in self.stream(request, call) if isinstance(item, Reply)][-1]

    def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        raise AssertionError("a fake says what it streams")


class FakeChat(StreamedChat):
    """Replies with *pieces*, one each *delay_s*, then fails with *error* if there is one."""

    def __init__(self, *pieces: str, delay_s: float = 0.0, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.delay_s = delay_s
        self.error = error
        self.requests: list[ChatRequest] = []
        self.calls: list[Call] = []

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        self.requests.append(request)
        self.calls.append(call)
        for piece in self.pieces:
            await asyncio.sleep(self.delay_s)
            yield piece
        if self.error is not None:
            raise self.error
        yield Reply("".join(self.pieces), "fake", "fake-chat", Usage(7, output=len(self.pieces)))


def unit_vector(text: str) -> Vectors:
    """The sum of one random direction for each word, at length 1."""
    words = _WORD.findall(text.lower()) or [text]
    total = np.array([_direction(word) for word in words], np.float32).sum(axis=0)
    return np.asarray(total / np.linalg.norm(total), np.float32)


@cache
def _direction(word: str) -> Vectors:
    seed = int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(FakeEmbedder.dims).astype(np.float32)


def _shared_words(query: str, text: str) -> float:
    wanted = set(_WORD.findall(query.lower()))
    return 10 * len(wanted & set(_WORD.findall(text.lower()))) / max(1, len(wanted)) - 5


async def parse_directly(data: bytes, name: str, content_type: str | None = None) -> Parsed:
    """Parses in this process: what a test makes is harmless."""
    return parse(data, name=name, content_type=content_type)
