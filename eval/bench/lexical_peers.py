"""Other BM25 engines over the same terms, in memory: rank-bm25, bm25s and tantivy, each as like ours as it can be set.

rank-bm25 has our formula to the letter: Lucene's idf, and our fixed pivot in place of the average length. bm25s takes
the average length from the corpus, so that other k1 and b make its formula ours but for the constant factor k1 + 1.
tantivy has k1 1.2 and b 0.75 as we do, but knows no other pivot than the average length, and keeps lengths above 40
rounded: its ranking is another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rag.store.postings import K1, PIVOT, B

TIES = 1000  # chunks as good as the last one that are looked at beside it
ROUNDING = 1e-5  # of single precision sums

Terms = Sequence[str]


class Peer(Protocol):
    """An engine over chunks that it numbers from 0."""

    name: str
    installed_as: str

    def __init__(self, chunks: Sequence[Terms]) -> None:
        """Index *chunks*."""

    def best(self, terms: Terms, depth: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best *depth* chunks."""

    def as_good(self, terms: Terms, depth: int) -> set[int]:
        """Every chunk whose score is not below that of the best *depth*: more than those where the last ones tie."""


class RankBM25:
    """rank-bm25's Okapi, a loop over all chunks for each term."""

    name, installed_as = "rank_bm25", "rank_bm25"

    def __init__(self, chunks: Sequence[Terms]) -> None:
        """Index *chunks*."""
        from rank_bm25 import BM25Okapi  # noqa: PLC0415 - an extra

        class Lucene(BM25Okapi):
            def _calc_idf(self, nd: Mapping[str, int]) -> None:
                self.idf = {term: math.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}

        self._index: Any = Lucene(chunks, k1=K1, b=B)  # type: ignore[no-untyped-call]  # it ships no types
        self._index.avgdl = PIVOT  # type: ignore[assignment]

    def best(self, terms: Terms, depth: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best *depth* chunks."""
        return _best(self._index.get_scores(terms), depth)

    def as_good(self, terms: Terms, depth: int) -> set[int]:
        """Every chunk whose score is not below that of the best *depth*."""
        return _as_good(self._index.get_scores(terms), depth)


class BM25S:
    """bm25s: every score computed while indexing, sparse columns added up in numpy."""

    name = installed_as = "bm25s"

    def __init__(self, chunks: Sequence[Terms]) -> None:
        """Index *chunks*."""
        import bm25s  # noqa: PLC0415 - an extra

        k1, b = with_average_length(sum(map(len, chunks)) / len(chunks))
        self._size = len(chunks)
        self._index: Any = bm25s.BM25(method="lucene", k1=k1, b=b)
        self._index.index(chunks, show_progress=False)

    def best(self, terms: Terms, depth: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best *depth* chunks."""
        numbers, scores = self._index.retrieve([list(terms)], k=min(depth, self._size), show_progress=False)
        return list(zip(numbers[0].tolist(), scores[0].tolist(), strict=True))

    def as_good(self, terms: Terms, depth: int) -> set[int]:
        """Every chunk whose score is not below that of the best *depth*."""
        return _as_good(self._index.get_scores(list(terms)), depth)


class Tantivy:
    """tantivy, Lucene's likeness in Rust: skips blocks that cannot reach the best."""

    name = installed_as = "tantivy"

    def __init__(self, chunks: Sequence[Terms]) -> None:
        """Index *chunks*."""
        import tantivy  # noqa: PLC0415 - an extra

        fields = tantivy.SchemaBuilder()
        fields.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")  # a term has no blank
        fields.add_integer_field("number", fast=True)
        self._library: Any = tantivy
        self._schema = fields.build()
        index = tantivy.Index(self._schema)
        with index.writer(num_threads=1) as writer:  # several would write a segment each
            for number, terms in enumerate(chunks):
                writer.add_document(tantivy.Document(terms=" ".join(terms), number=number))
            writer.commit()
        index.reload()
        self._searcher = index.searcher()

    def best(self, terms: Terms, depth: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best *depth* chunks."""
        should = self._library.Occur.Should
        wanted = [(should, self._library.Query.term_query(self._schema, "terms", term, "freq")) for term in terms]
        found = self._searcher.search(self._library.Query.boolean_query(wanted), depth, count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in found])
        return [(number, score) for number, (score, _) in zip(numbers, found, strict=True)]

    def as_good(self, terms: Terms, depth: int) -> set[int]:
        """Every chunk whose score is not below that of the best *depth*."""
        found = self.best(terms, depth + TIES)
        return {number for number, score in found if score >= found[:depth][-1][1]} if found else set()


PEERS: tuple[type[Peer], ...] = (RankBM25, BM25S, Tantivy)


def installed(peer: type[Peer]) -> bool:
    """Whether the library of the peer is here."""
    return find_spec(peer.installed_as) is not None


def with_average_length(average: float) -> tuple[float, float]:
    """The k1 and b that with *average* as the pivot weigh lengths as ours do with our pivot.

    k1 (1 - b + b length / pivot) is a line in the length: its value at 0 and its slope have to be the same.
    """
    at_zero, slope = K1 * (1 - B), K1 * B / PIVOT
    k1 = at_zero + slope * average
    return k1, slope * average / k1


def _best(scores: NDArray[np.float64], depth: int) -> list[tuple[int, float]]:
    top = np.argpartition(-scores, min(depth, scores.size) - 1)[:depth]
    return [(int(n), float(scores[n])) for n in top[np.argsort(-scores[top])] if scores[n] > 0]


def _as_good(scores: NDArray[np.float64], depth: int) -> set[int]:
    last = np.partition(scores, -min(depth, scores.size))[-min(depth, scores.size)]
    return set(np.flatnonzero((scores > 0) & (scores >= last * (1 - ROUNDING))).tolist())
