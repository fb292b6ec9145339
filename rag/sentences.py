"""Sentences and their places: the splitter cuts at them, answers are made of them, citations point at them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, partial

from rag.language import language
from rag.stops import Language, breaks_before_number, ends_sentence

# the lookbehind and the possessive repeats keep a long row of dots linear
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"')\]\u201d\u2019\u00bb]*+\s+"
    r"|[\u3002\uff01\uff1f]++[\u300d\u300f\u201d\u2019\uff09]*+\s*+"
)
# A line of its own: after a blank line, or a list item, or a table row. Other line ends are only wrapped text.
_LINE = re.compile(r"\n\s*\n\s*|\n(?=\s*(?:[-*•]|\d+[.)])\s)|\n(?=[^:;\n]{1,60}: )")
_CLOSED = re.compile(r"\.(?![.!?\u2026])")  # one full stop, whatever bracket closes behind it
_ROW = re.compile(r"[^:;\n]{1,60}: [^\n]*; [^:;\n]{1,60}: [^\n]*\Z")


def sentence_starts(text: str) -> Iterator[int]:
    """Starts of sentences but the first.

    Abbreviations, initials, decimals, ordinals and days of a month end none, and neither does a stop before lower case.
    """
    return _starts(text, _language_of(text))


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences, list items and table rows of *text* with their starts, white space around them left out."""
    lang = _language_of(text)
    for begin, line in _pieces(text, 0, _line_starts(text)):
        if _ROW.match(line):
            yield begin, line  # whatever sentences its cells hold: a value without its row says nothing
        else:
            yield from _pieces(line, begin, _starts(line, lang))


def _language_of(text: str) -> Language:
    return cache(partial(language, text))  # few texts have a stop that needs it


def _line_starts(text: str) -> Iterator[int]:
    for match in _LINE.finditer(text):
        if match[0] != "\n" or not breaks_before_number(text, match.start(), match.end()):
            yield match.end()


def _starts(text: str, lang: Language) -> Iterator[int]:
    for end in _END.finditer(text):
        after = end.end()
        if after == len(text):
            return
        if end[0].strip() == "." and not ends_sentence(text, end.start(), after, lang):
            continue
        if not (_CLOSED.match(end[0]) and text[after].islower()):
            yield after


def _pieces(text: str, offset: int, cuts: Iterable[int]) -> Iterator[tuple[int, str]]:
    starts = [0, *cuts]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if piece := text[start:end].strip():
            yield offset + start + text[start:end].index(piece), piece
