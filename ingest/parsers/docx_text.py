"""The text of a Word paragraph as a reader of the final version sees it, and what is anchored in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docx.oxml.ns import qn

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
ALTERNATES = f"{MC}AlternateContent"
TEXT_BOX = qn("w:txbxContent")
COMMENT = qn("w:commentReference")
NOTES = {  # a reference, and the part that its text is in
    qn("w:footnoteReference"): qn("w:footnotes"),
    qn("w:endnoteReference"): qn("w:endnotes"),
    COMMENT: qn("w:comments"),
}
WRAPPERS = frozenset({*map(qn, ("w:sdt", "w:sdtContent", "w:customXml", "w:ins", "w:moveTo")), ALTERNATES})
UNREAD = frozenset(map(qn, ("w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:sdtPr", "w:rt")))
CHARACTERS = {qn("w:tab"): " ", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
TEXTS = frozenset({qn("w:t"), qn("m:t")})


@dataclass(frozen=True, slots=True)
class TextRun:
    """Text with a line end where one is forced, and the text boxes and references to notes in it."""

    text: str
    beside: list[Any]


def read_text(paragraph: Any) -> TextRun:
    """The paragraph with insertions, without deletions and hidden text."""
    parts: list[str] = []
    beside: list[Any] = []
    for element in _shown(paragraph):
        if element.tag in TEXTS:
            parts.append(element.text or "")
        elif element.tag in CHARACTERS:
            parts.append(CHARACTERS[element.tag])
        elif element.tag == TEXT_BOX or element.tag in NOTES:
            beside.append(element)
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return TextRun("\n".join(filter(None, lines)), beside)


def chosen(element: Any) -> Any:
    """What to read of *element*: of alternates for newer and older programs, the first."""
    if element.tag != ALTERNATES:
        return element
    choice = element.find(f"{MC}Choice")
    return element[0] if choice is None and len(element) else () if choice is None else choice


def _shown(element: Any) -> Iterator[Any]:
    for child in chosen(element):
        if child.tag in UNREAD or _is_hidden(child):
            continue
        yield child
        if child.tag != TEXT_BOX:
            yield from _shown(child)


def _is_hidden(element: Any) -> bool:
    if element.tag != qn("w:r"):
        return False
    vanish = element.find(f"{qn('w:rPr')}/{qn('w:vanish')}")
    return vanish is not None and vanish.get(qn("w:val"), "1") not in ("0", "false", "off")
