"""What both legs must find, worked out without an index: every vector compared, every text read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from eval.bench.synthetic import LONGEST, Chunks, Mask
from rag.protocols import Vectors
from rag.store.postings import weight
from rag.values import ContentId, Ranked

SAME_DISTANCE = 1e-5  # the database adds up in another order
SAME_SCORE = 1e-3
SAME_RANK = 1e-4  # of BM25 scores: what differs by less may stand in either order

Scores = NDArray[np.float64]
_WEIGHTS = np.array([[weight(tf, length) for length in range(LONGEST + 1)] for tf in range(LONGEST + 1)])


@dataclass(frozen=True, slots=True)
class Query:
    """A question as both legs read it: a vector, and words by number."""

    text: str
    vector: Vectors
    words: Counter[int]


class Truth:
    """A tenant's chunks in the order of their ordinals, also those deleted since: postings still hold them."""

    def __init__(self, parts: Iterable[Chunks], contents: Iterable[ContentId]) -> None:
        """Begin with *parts*, which say *contents*."""
        self.chunks = _joined(list(parts))
        self.rows = {content: row for row, content in enumerate(contents)}
        self.alive: Mask = np.ones(len(self.chunks), np.bool_)

    def delete(self, documents: Sequence[int]) -> None:
        """Let the chunks of those documents be gone."""
        self.alive &= ~np.isin(self.chunks.document, documents)

    def append(self, part: Chunks, contents: Iterable[ContentId]) -> None:
        """Let *part* be written after all the others."""
        first = len(self.chunks)
        self.chunks = _joined([self.chunks, part])
        self.rows |= {content: row for row, content in enumerate(contents, first)}
        self.alive = np.concatenate([self.alive, np.ones(len(part), np.bool_)])

    def similarities(self, query: Query) -> Scores:
        """The cosine of each chunk with the query."""
        return np.asarray(self.chunks.vectors @ query.vector, np.float64)

    def bm25(self, query: Query, total: int) -> Scores:
        """Lucene's BM25 of each chunk, when the index counts *total* chunks, dead ones included."""
        scores = np.zeros(len(self.chunks))
        for word, times in query.words.items():
            tf = (self.chunks.words == word).sum(axis=1)
            n = np.count_nonzero(tf)
            idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
            scores += times * idf * _WEIGHTS[tf, self.chunks.lengths]
        return scores


@dataclass(frozen=True, slots=True)
class Found:
    """How a leg's rows compare with the truth: recall is None where nothing matches."""

    complete: bool
    recall: float | None
    same: bool


def judge(found: Sequence[Ranked], rows: Mapping[ContentId, int], scores: Scores, mask: Mask, *, depth: int) -> Found:
    """*found* beside the best *depth* of the rows in *mask* by *scores*, those tied with the last one included.

    `complete`: as many rows as there can be, all of them in the mask. `same`: these scores, and none left out.
    """
    expected = np.sort(scores[mask])[::-1][:depth]
    at = [rows.get(ranked.content, -1) for ranked in found]
    complete = len(set(at)) == len(at) == len(expected) and all(row >= 0 and mask[row] for row in at)
    if not len(expected):
        return Found(complete, None, complete)
    theirs = np.array([scores[row] if row >= 0 else -np.inf for row in at])
    ours = np.array([ranked.score for ranked in found])
    best = int(np.count_nonzero(theirs >= expected[-1] - SAME_DISTANCE))
    same = complete and bool(
        np.all(np.abs(ours - expected) <= SAME_SCORE)
        and np.all(np.abs(ours - theirs) <= SAME_SCORE)
        and theirs.min() >= expected[-1] - SAME_RANK
    )
    return Found(complete, min(1.0, best / len(expected)), same)


def _joined(parts: Sequence[Chunks]) -> Chunks:
    if len(parts) == 1:
        return parts[0]
    return Chunks(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Chunks)))
