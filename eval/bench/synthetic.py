"""Synthetic corpora as arrays and as documents for the store: the same for the same seed, no text twice.

Vectors lie in clusters, as embeddings do; words follow Zipf's law; `metadata.n` is uniform, so that a filter on it
keeps the share it names, and independent of what the chunks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from rag.analysis import analyse
from rag.protocols import Vectors
from rag.store.writing import PreparedDocument
from rag.values import DIMS, ContentId, Draft, Facets, content_id

WORDS = 50_000
SHORTEST, LONGEST = 20, 60  # words of a chunk
CHUNKS_A_DOCUMENT = 10
PART = 50_000  # chunks made and written at a time
CENTRES = 256
NOISE = 0.8  # length beside a centre of length 1: members of one cluster then have a cosine of 0.6
# Mandelbrot's law for English begins with some thirty words that are no terms
ZIPF_SHIFT, ZIPF_EXPONENT = 35, 1.07
CLOSED, LATE = 0.15, 0.15  # of the documents: for one group only, valid from LATER only
GROUP = "board"
NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)

Numbers = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks row by row: vectors in the precision that is stored, words by number with -1 behind them, facets."""

    vectors: Vectors
    words: Numbers
    lengths: Numbers
    document: Numbers
    n: NDArray[np.float64]
    closed: Mask
    late: Mask

    def __len__(self) -> int:
        return len(self.lengths)


class Lexicon:
    """Words, the most frequent first, of which each is one term of its own."""

    def __init__(self, words: Iterable[str], size: int = WORDS) -> None:
        """Take the first *size* of *words* that are one term, and one that no word before was."""
        found: dict[str, str] = {}
        for word in words:
            terms = analyse(word)
            if len(terms) == 1:
                found.setdefault(terms[0], word)
            if len(found) == size:
                break
        self.terms = list(found)
        self.words = list(found.values())
        frequencies = (np.arange(1, len(found) + 1) + ZIPF_SHIFT) ** -ZIPF_EXPONENT
        self._cumulated = np.cumsum(frequencies) / frequencies.sum()

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
        """Numbers of words by their frequency."""
        return np.searchsorted(self._cumulated, rng.random(shape)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Space:
    """Where the clusters are."""

    centres: Vectors

    @classmethod
    def random(cls, seed: int) -> Space:
        """Clusters in all directions."""
        return cls(_unit(np.random.default_rng(seed).standard_normal((CENTRES, DIMS), np.float32)))

    def draw(self, rng: np.random.Generator, number: int) -> Vectors:
        """Unit vectors of random clusters."""
        noise = _unit(rng.standard_normal((number, DIMS), np.float32)) * np.float32(NOISE)
        return _unit(self.centres[rng.integers(len(self.centres), size=number)] + noise)


class Corpus:
    """Chunks with words of *lexicon* and vectors in *space*."""

    def __init__(self, lexicon: Lexicon, space: Space, *, seed: int) -> None:
        """Draw from *seed* on."""
        self.lexicon = lexicon
        self.space = space
        self._rng = np.random.default_rng(seed)

    def parts(self, chunks: int) -> Iterator[Chunks]:
        """So many chunks, of which a tenth as many documents, in parts."""
        for first in range(0, chunks, PART):
            part = min(PART, chunks - first)
            yield self.chunks(np.arange(first, first + part, dtype=np.int32) // CHUNKS_A_DOCUMENT)

    def chunks(self, document: Numbers) -> Chunks:
        """A chunk for each entry of *document*, the number of the document it is in."""
        rng, number = self._rng, len(document)
        of_document = document - document.min()
        documents = int(of_document.max()) + 1
        lengths = rng.integers(SHORTEST, LONGEST, size=number, endpoint=True).astype(np.int32)
        words = self.lexicon.draw(rng, (number, LONGEST))
        words[np.arange(LONGEST) >= lengths[:, None]] = -1
        return Chunks(
            vectors=halved(self.space.draw(rng, number)),
            words=words,
            lengths=lengths,
            document=document,
            n=rng.random(documents)[of_document],
            closed=(rng.random(documents) < CLOSED)[of_document],
            late=(rng.random(documents) < LATE)[of_document],
        )

    def prepared(self, chunks: Chunks) -> list[PreparedDocument]:
        """The documents that the chunks are of, as the store takes them."""
        edges = np.flatnonzero(np.diff(chunks.document, prepend=-1, append=-1)).tolist()
        rows = [row[:length] for row, length in zip(chunks.words.tolist(), chunks.lengths.tolist(), strict=True)]
        return [self._document(chunks, rows, slice(*edge)) for edge in pairwise(edges)]

    def contents(self, chunks: Chunks) -> list[ContentId]:
        """The ids of what the chunks say, by which the legs name them."""
        rows = zip(chunks.words.tolist(), chunks.lengths.tolist(), strict=True)
        return [content_id(self.text(row[:length])) for row, length in rows]

    def text(self, row: Sequence[int]) -> str:
        """The words of those numbers."""
        words = self.lexicon.words
        return " ".join([words[number] for number in row])

    def _document(self, chunks: Chunks, rows: list[list[int]], part: slice) -> PreparedDocument:
        terms, at = self.lexicon.terms, part.start
        texts = [self.text(row) for row in rows[part]]
        name = external_id(int(chunks.document[at]))
        facets = Facets(
            metadata={"n": float(chunks.n[at])},
            acl=(GROUP,) if chunks.closed[at] else (),
            valid_from=LATER if chunks.late[at] else None,
        )
        return PreparedDocument(
            external_id=name,
            facets=facets,
            fingerprint=f"{name} {chunks.n[at]}".encode(),
            text="\n".join(texts),
            drafts=list(_drafts(texts)),
            vectors=chunks.vectors[part],
            terms=[[terms[number] for number in row] for row in rows[part]],
        )


def external_id(document: int) -> str:
    """The name of a document by its number."""
    return f"{document:07}"


def invented() -> Iterator[str]:
    """Pronounceable words that are in no language: more than a lexicon takes."""
    syllables = [consonant + vowel for consonant, vowel in product("bdfghjklmnprtvwz", "aiou")]
    return (first + second + third + "k" for first, second, third in product(syllables, repeat=3))


def halved(vectors: Vectors) -> Vectors:
    """The vectors as the database gives them back."""
    return vectors.astype(np.float16).astype(np.float32)


def _unit(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _drafts(texts: Sequence[str]) -> Iterator[Draft]:
    start, whole = 0, sum(map(len, texts)) + len(texts) - 1
    for position, text in enumerate(texts):
        end = start + len(text)
        yield Draft(position, start, end, 0, whole, (), "prose", text, text)
        start = end + 1
