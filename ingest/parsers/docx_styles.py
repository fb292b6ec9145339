"""What a Word paragraph is by its own properties and its style: heading, list item, line of a table of contents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from docx.oxml.ns import qn

HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE)
CONTENTS = re.compile(r"toc (?:[1-9]|heading)|table of (?:figures|authorities)", re.IGNORECASE)
MAX_CHAIN = 20  # styles based on styles; damaged files have circles
BODY_LEVEL = 9
NO_NUMBER = "0"


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """`heading` is 0 for text; `number_id` is empty for what is in no list."""

    heading: int = 0
    number_id: str = ""
    list_level: int = 0
    is_contents: bool = False


class Styles:
    """The paragraph styles of a document."""

    def __init__(self, roots: Sequence[Any]) -> None:
        """Read them from the styles parts in *roots*."""
        self._elements = {style.get(qn("w:styleId")): style for root in roots for style in root.iter(qn("w:style"))}
        self._resolved: dict[str, ParagraphStyle] = {}

    def of(self, paragraph: Any) -> ParagraphStyle:
        """The paragraph's own properties over those of its style."""
        properties = paragraph.find(qn("w:pPr"))
        if properties is None:
            return ParagraphStyle()
        return _with(self._named(child_value(properties, "w:pStyle")), properties)

    def _named(self, style_id: str) -> ParagraphStyle:
        if style_id not in self._resolved:
            self._resolved[style_id] = self._resolve(style_id)
        return self._resolved[style_id]

    def _resolve(self, style_id: str) -> ParagraphStyle:
        chain: list[Any] = []
        base = style_id
        while base in self._elements and len(chain) < MAX_CHAIN:
            chain.append(self._elements[base])
            base = child_value(chain[-1], "w:basedOn")
        style = ParagraphStyle()
        for element in reversed(chain):
            style = _by_name(style, child_value(element, "w:name"))
            if (properties := element.find(qn("w:pPr"))) is not None:
                style = _with(style, properties)
        return style if chain else _by_name(style, style_id)  # a built-in style need not be defined


def _by_name(style: ParagraphStyle, name: str) -> ParagraphStyle:
    if heading := HEADING.fullmatch(name):
        return replace(style, heading=int(heading[1]))
    if name.lower() == "title":
        return replace(style, heading=1)
    return replace(style, heading=0, is_contents=True) if CONTENTS.fullmatch(name) else style


def _with(style: ParagraphStyle, properties: Any) -> ParagraphStyle:
    if outline := child_value(properties, "w:outlineLvl"):
        level = int(outline)
        style = replace(style, heading=level + 1 if level < BODY_LEVEL else 0)
    numbered = properties.find(qn("w:numPr"))
    if numbered is not None:
        number_id = child_value(numbered, "w:numId") or style.number_id
        level = int(child_value(numbered, "w:ilvl") or style.list_level)
        style = replace(style, number_id="" if number_id == NO_NUMBER else number_id, list_level=max(0, min(level, 8)))
    return style


def child_value(element: Any, tag: str) -> str:
    """The `w:val` of the child *tag*, empty without one."""
    child = element.find(qn(tag))
    return "" if child is None else str(child.get(qn("w:val"), ""))
