"""Chunks that say nearly what a better one says, as a paragraph does in two versions of a page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from rag.analysis import analyse
from rag.values import Chunk

SHINGLE = 3  # words
ALIKE = 0.8  # of the shingles in common: some six words of a hundred may differ
_WORD = re.compile(r"\w+")


def repeats(chunks: Sequence[Chunk], question: str) -> list[bool]:
    """For each chunk, whether an earlier one that is no repeat itself says nearly the same.

    It does not where the chunk, or what it stands under, has a word of the question that the earlier one lacks.
    """
    sizes: list[int] = []
    kept: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)  # the chunks that have a shingle, no repeats
    found: list[bool] = []
    for n, chunk in enumerate(chunks):
        shingles = _shingles(chunk.text)
        sizes.append(len(shingles))
        common = Counter(earlier for shingle in shingles for earlier in kept.get(shingle, ()))
        alike = [earlier for earlier, both in common.items() if both >= ALIKE * (sizes[n] + sizes[earlier] - both)]
        found.append(any(not _adds(chunk, chunks[earlier], question) for earlier in alike))
        if not found[n]:
            for shingle in shingles:
                kept[shingle].append(n)
    return found


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    if len(words) <= SHINGLE:
        return {tuple(words)}
    return set(zip(words, words[1:], words[2:], strict=False))


def _adds(chunk: Chunk, earlier: Chunk, question: str) -> bool:
    wanted = set(analyse(question))
    return bool((wanted & _words(chunk)) - _words(earlier))


def _words(chunk: Chunk) -> set[str]:
    return set(analyse("\n".join((chunk.title, *chunk.breadcrumb, chunk.indexed))))
