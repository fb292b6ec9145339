"""Words for people: counts with their nouns, and texts cut to a length."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun: 1 call, 2 calls."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """The text on one line; of one over *most* characters the first words, and an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    words, _, cut = line[:most].rpartition(" ")  # the last word may be half a one
    return f"{(words or cut[:-1]).rstrip(' ,;:')}…"
