"""Plain text to blocks: paragraphs at blank lines, and the few lines that can only be headings."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby

from ingest.blocks import Parsed, TextBuilder
from ingest.cuts import COLONS, SENTENCE_MARKS
from ingest.typography import plain_letters, rejoin, vocabulary
from rag.values import Facets

TITLE_CHARS = 80  # hard-wrapped prose is rarely narrower, so a first line this short is a title
CAPITALS_CHARS = 60  # longer lines in capitals are warnings and legal text
CAPITALS_LETTERS = 4  # below, it is an abbreviation
NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){1,3})\.?[ \t]+[A-Z].{1,70}")  # "4.2 Fees"; "4. Fees" may be a list item
NO_TITLE = re.compile(r"[{}=;<>$\\]|\A[\W_]*\Z")  # a line of code or data, or without a word
SENTENCE_ENDS = (*SENTENCE_MARKS, *COLONS, ";", ",")


def parse_text(source: str) -> Parsed:
    """The paragraphs of *source*, which has LF line ends."""
    document = TextBuilder()
    known = vocabulary(plain_letters(source))
    for lines in _paragraphs(source):
        paragraph = rejoin(plain_letters(lines), known)
        if not document.blocks:
            title, paragraph = _title(paragraph)
            document.add("heading", title, level=1)
        level = _heading_level(paragraph)
        document.add("heading" if level else "paragraph", paragraph, level=level)
    parsed = document.parsed(Facets())
    return replace(parsed, facets=Facets(title=parsed.first_heading()))


def _paragraphs(source: str) -> list[str]:
    lines = (line.rstrip() for line in source.split("\n"))
    return [_outdented("\n".join(group)) for filled, group in groupby(lines, key=bool) if filled]


def _outdented(paragraph: str) -> str:
    """Without the indent of its first line, unless that is one of several, as in code."""
    return paragraph if "\n " in paragraph or "\n\t" in paragraph else paragraph.strip()


def _title(paragraph: str) -> tuple[str, str]:
    first, _, rest = paragraph.partition("\n")
    goes_on = first.endswith(SENTENCE_ENDS) or rest.lstrip()[:1].islower()
    if len(first) > TITLE_CHARS or goes_on or NO_TITLE.search(first):
        return "", paragraph
    return first.strip(), rest


def _heading_level(paragraph: str) -> int:
    if "\n" in paragraph or paragraph.endswith(SENTENCE_ENDS):
        return 0
    if numbered := NUMBERED.fullmatch(paragraph):
        return numbered[1].count(".") + 1
    letters = sum(map(str.isalpha, paragraph))
    return int(paragraph.isupper() and letters >= CAPITALS_LETTERS and len(paragraph) <= CAPITALS_CHARS)
