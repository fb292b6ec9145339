"""Whether a text holds a gold passage, however it was laid out."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_MARKS = str.maketrans("", "", "`*_")


def contains(text: str, passage: str) -> bool:
    """True when *passage* stands in *text*, Markdown marks, white space and case aside.

    `a | b` names cells of a table row: its pieces must stand in this order on one line of the text. Words are matched
    whole, so `ERR-403` does not stand in `ERR-4031`.
    """
    pieces = tuple(piece for part in passage.split("|") if (piece := _normalise(part)))
    if not pieces:
        return False
    lines = [text] if len(pieces) == 1 else text.splitlines()
    return any(_pattern(pieces).search(_normalise(line)) for line in lines)


def overlaps(quote: str, passage: str) -> bool:
    """True when one of the two holds the other."""
    return contains(quote, passage) or contains(passage, quote)


def same(passage: str, other: str) -> bool:
    """True when two passages are the same words."""
    return _normalise(passage) == _normalise(other)


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_MARKS).lower().split())


@lru_cache(maxsize=1024)
def _pattern(pieces: tuple[str, ...]) -> re.Pattern[str]:
    # ASCII edges only: Chinese and Japanese have no spaces to find a word's end by
    whole = (rf"(?<![0-9a-z]){re.escape(piece)}(?![0-9a-z])" for piece in pieces)
    return re.compile(".*?".join(whole))
