"""The inverted index as rows: chunks to posting blocks, and blocks back to ordinals and weights."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag.analysis import term_id

K1 = 1.2  # Lucene's defaults; change them only with an eval report beside the diff
B = 0.75
# Terms in a chunk of the size the splitter aims at. Fixed, so that scores do not drift as the corpus grows.
PIVOT = 100.0
BLOCK = 4096  # ordinals in a full block: 32 KB, one fetch

ORDS = np.dtype("<i4")
WEIGHTS = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Block:
    """The chunks that hold one term: rising ordinals, and the BM25 weight of the term in each, idf left out."""

    term: int
    ords: NDArray[np.int32]
    weights: NDArray[np.float32]

    def shifted(self, by: int) -> Block:
        """The same block with *by* added to every ordinal."""
        return Block(self.term, self.ords + np.int32(by), self.weights)

    def columns(self) -> tuple[int, int, int, bytes, bytes]:
        """The block as a row of `postings`: term, lowest ordinal, size, ordinals, weights."""
        ords, weights = self.ords.astype(ORDS).tobytes(), self.weights.astype(WEIGHTS).tobytes()
        return self.term, int(self.ords[0]), len(self.ords), ords, weights


def weight(tf: int, length: int) -> float:
    """BM25's tf part: tf (k1 + 1) / (tf + k1 (1 - b + b length / pivot)) (Robertson and Zaragoza, 2009)."""
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / PIVOT))


def build(chunks: Sequence[Sequence[str]]) -> Iterator[Block]:
    """The blocks for chunks given as their terms, with ordinals from 0."""
    entries: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for number, terms in enumerate(chunks):
        for term, tf in Counter(terms).items():
            entries[term_id(term)].append((number, weight(tf, len(terms))))
    for key, rows in sorted(entries.items()):
        yield from _cut(key, np.array([o for o, _ in rows], ORDS), np.array([w for _, w in rows], WEIGHTS))


def read(term: int, ords: bytes, weights: bytes) -> Block:
    """A stored block."""
    return Block(term, np.frombuffer(ords, ORDS), np.frombuffer(weights, WEIGHTS))


def merge(blocks: Sequence[Block], old: NDArray[np.int32], new: NDArray[np.int32]) -> Iterator[Block]:
    """The blocks of one term as few full ones: ordinals of *old* become those of *new*, and others are left out.

    Both rise, so that a place in one is the place in the other.
    """
    ords = np.concatenate([block.ords for block in blocks])
    weights = np.concatenate([block.weights for block in blocks])
    places = np.searchsorted(old, ords)
    keep = places < old.size
    keep[keep] = old[places[keep]] == ords[keep]
    kept, weights = new[places[keep]], weights[keep]
    order = np.argsort(kept, kind="stable")
    if order.size:
        yield from _cut(blocks[0].term, kept[order], weights[order])


def _cut(term: int, ords: NDArray[np.int32], weights: NDArray[np.float32]) -> Iterator[Block]:
    for at in range(0, len(ords), BLOCK):
        yield Block(term, ords[at : at + BLOCK], weights[at : at + BLOCK])
