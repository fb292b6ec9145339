"""Sentences and their places: the splitter cuts at them, answers are made of them, citations point at them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# the lookbehind and the possessive repeats keep a long row of dots linear
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"')\]\u201d\u2019\u00bb]*+\s+"
    r"|[\u3002\uff01\uff1f]++[\u300d\u300f\u201d\u2019\uff09]*+\s*+"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|ca|approx|resp|incl|Dr|Mr|Mrs|Ms|Prof|Sr|Jr|St|No|Nos|Fig|Figs|Eq|Sec|Ch|Vol|pp?|"
    r"Inc|Ltd|Co|Corp|Art|Abs|Nr|bzw|z\.B|d\.h|U\.S|U\.K)|\b[A-Z]|(?m:^)\W*\d+)\.$"
)
# A line of its own: after a blank line, or a list item, or a table row. Other line ends are only wrapped text.
_LINE = re.compile(r"\n\s*\n\s*|\n(?=\s*(?:[-*•]|\d+[.)])\s)|\n(?=[^:;\n]{1,60}: )")
_ROW = re.compile(r"[^:;\n]{1,60}: [^\n]*; [^:;\n]{1,60}: [^\n]*\Z")


def sentence_starts(text: str) -> Iterator[int]:
    """Starts of sentences but the first.

    Abbreviations, initials and decimals end none, and neither does a mark before lower case.
    """
    for end in _END.finditer(text):
        mark_only = end[0].strip() == "."
        if mark_only and _ABBREVIATION.search(text, max(0, end.start() - 12), end.start() + 1):
            continue
        if end.end() < len(text) and not (mark_only and text[end.end()].islower()):
            yield end.end()


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences, list items and table rows of *text* with their starts, white space around them left out."""
    for begin, line in _pieces(text, 0, (match.end() for match in _LINE.finditer(text))):
        if _ROW.match(line):
            yield begin, line  # whatever sentences its cells hold: a value without its row says nothing
        else:
            yield from _pieces(line, begin, sentence_starts(line))


def _pieces(text: str, offset: int, cuts: Iterable[int]) -> Iterator[tuple[int, str]]:
    starts = [0, *cuts]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if piece := text[start:end].strip():
            yield offset + start + text[start:end].index(piece), piece
