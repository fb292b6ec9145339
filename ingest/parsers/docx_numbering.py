"""The numbers that Word shows in front of paragraphs and does not store in their text."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

from ingest.parsers.numerals import numeral

LEVELS = 9
PLACE = re.compile(r"%([1-9])")


@dataclass(frozen=True, slots=True)
class Level:
    """How a level of a list counts: `pattern` is such as `%1.%2`."""

    style: str
    pattern: str
    start: int


@dataclass(slots=True)
class Numbering:
    """Counts the numbered paragraphs of a document in their order."""

    abstract_of: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[int, Level]] = field(default_factory=dict)
    _counts: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def mark(self, number_id: str, level: int) -> str:
        """What stands in front of the list's next paragraph on *level*: `- ` for bullets, nothing for no number."""
        abstract = self.abstract_of.get(number_id, "")
        levels = self.levels.get(abstract, {})
        shown = levels.get(level)
        if shown is None:
            return "- "
        counts = self._counts[abstract]
        counts[level] = counts.get(level, shown.start - 1) + 1
        for deeper in [n for n in counts if n > level]:
            del counts[deeper]
        if shown.style == "bullet":
            return "- "
        text = PLACE.sub(lambda place: _count(levels, counts, int(place[1]) - 1), shown.pattern)
        return f"{text} " if text.strip() and shown.style != "none" else ""


def _count(levels: dict[int, Level], counts: dict[int, int], level: int) -> str:
    shown = levels.get(level)
    return numeral(counts.get(level, shown.start), shown.style) if shown else ""


def read_numbering(root: Any) -> Numbering:
    """The lists that the numbering part of a document defines."""
    numbering = Numbering()
    for abstract in root.iterchildren(qn("w:abstractNum")):
        levels = {int(item.get(qn("w:ilvl"), 0)): _level(item) for item in abstract.iterchildren(qn("w:lvl"))}
        numbering.levels[abstract.get(qn("w:abstractNumId"), "")] = levels
    for number in root.iterchildren(qn("w:num")):
        reference = number.find(qn("w:abstractNumId"))
        if reference is not None:
            numbering.abstract_of[number.get(qn("w:numId"), "")] = reference.get(qn("w:val"), "")
    return numbering


def _level(item: Any) -> Level:
    def value(tag: str, default: str) -> str:
        child = item.find(qn(tag))
        return default if child is None else str(child.get(qn("w:val"), default))

    return Level(value("w:numFmt", "decimal"), value("w:lvlText", ""), int(value("w:start", "1")))
