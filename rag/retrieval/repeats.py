"""Chunks that say nearly what a better one says, as a paragraph does in two versions of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice

from rag.analysis import analyse
from rag.values import Chunk

WORDS = 3  # of a shingle
ALIKE = 0.8  # of the shingles in common: some six words of a hundred may differ
_WORD = re.compile(r"\w+")
Shingle = tuple[str, ...]
Shingles = set[Shingle]


def repeats(chunks: Sequence[Chunk], question: str) -> list[bool]:
    """For each chunk, whether an earlier one that is no repeat itself says nearly the same.

    It does not where the chunk, or what it stands under, has a word of the question that the earlier one lacks.
    """

    @cache  # most chunks are like none: then no words are looked for
    def wanted() -> frozenset[str]:
        return frozenset(analyse(question))

    @cache
    def named(n: int) -> frozenset[str]:
        under = (chunks[n].title, *chunks[n].breadcrumb, chunks[n].indexed)
        return wanted().intersection(analyse("\n".join(under)))

    kept: list[tuple[int, Shingles]] = []  # no repeats
    seen: Shingles = set()  # all of theirs
    found: list[bool] = []
    for n, chunk in enumerate(chunks):
        shingles = _shingles(chunk.text)
        # of so few of them, one at least is in whatever is alike
        few = frozenset(islice(shingles, len(shingles) - math.ceil(ALIKE * len(shingles)) + 1))
        near = [] if seen.isdisjoint(few) else [earlier for earlier, theirs in kept if _alike(shingles, theirs, few)]
        found.append(any(named(n) <= named(earlier) for earlier in near))
        if not found[n]:
            kept.append((n, shingles))
            seen |= shingles
    return found


def _alike(one: Shingles, other: Shingles, few: frozenset[Shingle]) -> bool:
    if other.isdisjoint(few):
        return False
    both = len(one & other)
    return both >= ALIKE * (len(one) + len(other) - both)


def _shingles(text: str) -> Shingles:
    words = _WORD.findall(text.lower())
    if len(words) <= WORDS:
        return {tuple(words)}
    return set(zip(words, words[1:], words[2:], strict=False))
