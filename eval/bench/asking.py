"""Questions with known vectors, asked of both legs as the service has them, and the time they take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import numpy as np

from eval.bench.oracle import Query
from eval.bench.synthetic import Corpus
from rag.protocols import Vectors
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.settings import Settings
from rag.store.engine import Database
from rag.values import DIMS

FEWEST_WORDS, MOST_WORDS = 3, 8

T = TypeVar("T")


class KnownVectors:
    """An embedder of questions whose vectors are given: what is left to measure is the search."""

    name = "known-vectors"
    dims = DIMS
    langs: frozenset[str] | None = None
    max_tokens = 512

    def __init__(self) -> None:
        """Know none yet."""
        self._vectors: dict[str, Vectors] = {}

    def learn(self, queries: Sequence[Query]) -> None:
        """Know *queries* from now on."""
        self._vectors |= {query.text: query.vector for query in queries}

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The words of each text."""
        return [len(text.split()) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts that are known questions."""
        return np.stack([self._vectors[text] for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        """The vector of a known question."""
        return self._vectors[text]


class Legs:
    """Both legs over one database, with the service's default settings."""

    def __init__(self, database: Database, embedder: KnownVectors) -> None:
        """Search *database*."""
        exact_below = Settings.model_fields["exact_below"].default
        self.dense = DenseLeg(database, {embedder.name: embedder}, exact_below=exact_below)
        self.lexical = LexicalLeg(database)


def draw_queries(corpus: Corpus, number: int, *, seed: int) -> list[Query]:
    """Questions like the chunks of *corpus*, of none of them: words by their frequency, a vector in a cluster."""
    rng = np.random.default_rng(seed)
    vectors = corpus.space.draw(rng, number)
    queries = []
    for vector, length in zip(vectors, rng.integers(FEWEST_WORDS, MOST_WORDS, number, endpoint=True), strict=True):
        words = corpus.lexicon.draw(rng, (int(length),)).tolist()
        queries.append(Query(corpus.text(words), vector, Counter(words)))
    return queries


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """The result of *work*, and the milliseconds it took."""
    started = time.perf_counter()
    result = await work
    return result, (time.perf_counter() - started) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which *share* percent of *values* lie, to a thousandth."""
    return round(float(np.percentile(values, share)), 3)
