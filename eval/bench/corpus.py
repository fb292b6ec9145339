"""Markdown documents with natural words in natural frequencies: the same for the same seed, no text twice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

ZIPF_SHIFT, ZIPF_EXPONENT = 2.7, 1.07  # Mandelbrot's law for English
COMMON = 100  # words that stay as they are; of the rarer ones, every third becomes a form that no word list has
NUMBERS = 0.04  # of the words
CODES = 0.02
SUFFIXES, MIN_SUFFIX = 300, 2  # the most frequent; letters
PER_FOLDER = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """How long the parts of a document are: each a least and a greatest number."""

    sections: tuple[int, int]
    paragraphs: tuple[int, int]  # of a section
    sentences: tuple[int, int]  # of a paragraph
    words: tuple[int, int]  # of a sentence
    rows: tuple[int, int]  # of a table or list
    chunk_bytes: int  # of such a document there are in a chunk, as measured


# as long as our fixtures: 80 tokens a chunk on average, half of them under 75, one in ten above 135
ARTICLES = Shape((3, 14), (1, 2), (1, 4), (6, 18), (3, 9), chunk_bytes=315)
NOTES = Shape((6, 14), (1, 1), (1, 1), (8, 14), (2, 3), chunk_bytes=130)  # many small chunks, quick to embed


class Vocabulary:
    """Words in order of their frequency, and endings that make new ones of them."""

    def __init__(self, words: Sequence[str], suffixes: Sequence[str]) -> None:
        """Draw from *words* by Zipf's law, many of the rare ones with one of *suffixes*."""
        self._words = [
            word + suffixes[rank % len(suffixes)] if rank > COMMON and rank % 3 == 0 else word
            for rank, word in enumerate(words)
        ]
        self._suffixes = suffixes
        self._cumulated = list(accumulate((rank + ZIPF_SHIFT) ** -ZIPF_EXPONENT for rank in range(1, len(words) + 1)))

    @classmethod
    def of_tokenizer(cls, file: Path) -> Vocabulary:
        """The English words that a WordPiece tokenizer.json knows; its ids are in order of frequency."""
        pieces: dict[str, int] = json.loads(file.read_bytes())["model"]["vocab"]
        ordered = [piece for piece in sorted(pieces, key=pieces.__getitem__) if piece.isascii()]
        suffixes = [p[2:] for p in ordered if p.startswith("##") and p[2:].isalpha() and len(p) >= MIN_SUFFIX + 2]
        return cls([piece for piece in ordered if piece.isalpha() and len(piece) > 1], suffixes[:SUFFIXES])

    def words(self) -> Iterator[str]:
        """Every word, the most frequent first, and then all with one ending, and another, far beyond any list."""
        yield from self._words
        yield from (word + suffix for suffix in self._suffixes for word in self._words)

    def draw(self, rng: random.Random, number: int) -> list[str]:
        """So many words, some of them numbers and codes."""
        return [self._varied(rng, w) for w in rng.choices(self._words, cum_weights=self._cumulated, k=number)]

    def _varied(self, rng: random.Random, word: str) -> str:
        chance = rng.random()
        if chance < NUMBERS:
            return str(rng.randint(2, rng.choice((20, 100, 9999))))
        if chance < NUMBERS + CODES:
            return f"{word[:3].upper()}-{rng.randint(100, 99999)}"
        return word


class Writer:
    """Writes documents of one shape, one after another."""

    def __init__(self, vocabulary: Vocabulary, shape: Shape, *, seed: int) -> None:
        """Take words from *vocabulary* and every chance from *seed*."""
        self._vocabulary = vocabulary
        self._shape = shape
        self._rng = random.Random(seed)  # noqa: S311 - text, no secret

    def document(self) -> str:
        """A document with front matter, a title, and sections of every kind."""
        title = self._title()
        doc_type = self._rng.choice(("guide", "policy", "reference"))
        front = f"---\ndoc_type: {doc_type}\ntags: ['{self._words(1)}']\n---\n"
        parts = [f"# {title}", self._paragraph(), *(self._section() for _ in range(self._between("sections")))]
        return front + "\n\n".join(parts) + "\n"

    def _section(self) -> str:
        kinds: tuple[Callable[[], str], ...] = (self._paragraphs, self._table, self._list, self._code)
        [body] = self._rng.choices(kinds, weights=(70, 14, 11, 5))
        return f"{'#' * self._rng.choice((2, 2, 3))} {self._title()}\n\n{body()}"

    def _paragraphs(self) -> str:
        return "\n\n".join(self._paragraph() for _ in range(self._between("paragraphs")))

    def _paragraph(self) -> str:
        return " ".join(self._sentence() for _ in range(self._between("sentences")))

    def _sentence(self) -> str:
        words = self._vocabulary.draw(self._rng, self._between("words"))
        if len(words) > 10:  # noqa: PLR2004 - about where people breathe
            words[len(words) // 2] += ","
        return _capital(" ".join(words)) + "."

    def _table(self) -> str:
        columns = self._rng.randint(2, 4)
        rows = [[self._words(self._rng.randint(1, 4)) for _ in range(columns)] for _ in range(self._between("rows"))]
        head = [_capital(self._words(1)) for _ in range(columns)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["--"] * columns, *rows))

    def _list(self) -> str:
        return "\n".join(f"- {self._sentence()}" for _ in range(self._between("rows")))

    def _code(self) -> str:
        lines = (f"{self._name()} = {self._name()}({self._name()}, {self._rng.randint(0, 999)})" for _ in range(4))
        return "\n".join(("```python", *lines, "```"))

    def _name(self) -> str:
        return "_".join(self._vocabulary.draw(self._rng, 2)).lower().replace("-", "_")

    def _title(self) -> str:
        return _capital(self._words(self._rng.randint(2, 5)))

    def _words(self, number: int) -> str:
        return " ".join(self._vocabulary.draw(self._rng, number))

    def _between(self, part: str) -> int:
        least, greatest = getattr(self._shape, part)
        return self._rng.randint(least, greatest)


def documents(vocabulary: Vocabulary, shape: Shape, *, chunks: int, seed: int) -> Iterator[tuple[str, str]]:
    """Names and texts of as many documents as have about *chunks* chunks."""
    writer = Writer(vocabulary, shape, seed=seed)
    left = chunks * shape.chunk_bytes
    for number in count():
        if left <= 0:
            return
        text = writer.document()
        left -= len(text.encode())
        yield f"{number // PER_FOLDER:03}/{number:05}.md", text


def write(folder: Path, vocabulary: Vocabulary, shape: Shape, *, chunks: int, seed: int) -> int:
    """The number of documents written below *folder*."""
    written = 0
    for name, text in documents(vocabulary, shape, chunks=chunks, seed=seed):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written += 1
    return written


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]  # codes stay in capitals
