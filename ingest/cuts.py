"""Places where text may be cut: offsets of the parts after the first, each function finer than the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator

SENTENCE_MARKS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")  # the last three are the CJK ones
QUESTION_MARKS = ("?", "\uff1f")
COLONS = (":", "\uff1a")
WINDOW_CHARS = 200  # small enough to fill chunks well, large enough to count few pieces


def blank_lines(text: str) -> Iterator[int]:
    """Starts of what follows blank lines."""
    return (match.end() for match in re.finditer(r"\n(?:[ \t]*\n)+", text))


def lines(text: str) -> Iterator[int]:
    """Starts of lines."""
    return (match.end() for match in re.finditer(r"\n", text))


def word_groups(text: str) -> Iterator[int]:
    """Starts of words, some of them: as few as keep the parts within the window."""
    begin = 0
    for word in re.finditer(r"\S+", text):
        if word.end() - begin > WINDOW_CHARS and word.start() > begin:
            begin = word.start()
            yield begin


def words(text: str) -> Iterator[int]:
    """Starts of all words."""
    return (match.end() for match in re.finditer(r"\s+", text))


def windows(text: str) -> Iterator[int]:
    """Every window's start: the hard cut."""
    return iter(range(WINDOW_CHARS, len(text), WINDOW_CHARS))


def middle(text: str) -> Iterator[int]:
    """The one offset in the middle."""
    return iter((len(text) // 2,) if len(text) > 1 else ())
