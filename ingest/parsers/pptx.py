"""PowerPoint presentations to blocks: a heading for each slide, then its texts, tables, charts and notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pptx
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.office import read_facets, read_office
from ingest.parsers.parts import add_part
from ingest.spanned import Cell, add_spanned, headed
from rag.errors import InvalidInput
from rag.values import Facets

KIND = "PowerPoint presentation (.pptx)"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
MATH_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
TITLES = frozenset({"title", "ctrTitle"})
PAGE_FURNITURE = frozenset({"sldNum", "dt"})
CONTENT = frozenset({"", "body", "obj"})  # placeholders whose paragraphs have bullets unless they say otherwise
BULLETS = (qn("a:buChar"), qn("a:buAutoNum"), qn("a:buBlip"))


def parse_pptx(data: bytes) -> Parsed:
    """The slides in order, each under its title or its number.

    Raises InvalidInput for a file that is encrypted, damaged, no presentation or without text.
    """
    return read_office(data, KIND, _read)


def _read(stream: BinaryIO) -> Parsed:
    presentation = pptx.Presentation(stream)
    reader = _Reader()
    for number, slide in enumerate(presentation.slides, start=1):
        reader.add_slide(number, slide)
    if not reader.document.blocks:
        raise InvalidInput("This presentation has no text; its slides may be pictures.")
    facets = read_facets(presentation.part.package)
    parsed = reader.document.parsed(facets)
    return replace(parsed, facets=replace(facets, title=facets.title or parsed.first_heading()))


class _Reader:
    def __init__(self) -> None:
        self.document = TextBuilder()
        self._footers: set[str] = set()

    def add_slide(self, number: int, slide: Any) -> None:
        shapes = list(_shapes(slide.shapes._spTree))
        title = next((shape for shape in shapes if _placeholder(shape) in TITLES and _text(shape)), None)
        name = " ".join(_text(title).split()) if title is not None else ""
        content = TextBuilder()
        for shape in shapes:
            if shape.tag == qn("a:tbl"):
                _add_table(content, shape)
            elif shape is not title:
                self._add_texts(content, shape)
        for relationship in slide.part.rels.values():
            if not relationship.is_external:
                _add_related(content, relationship.reltype, relationship.target_part)
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None and (text := notes.text.replace("\v", "\n").strip()):
            content.add("paragraph", f"Notes: {text}")
        self.document.add("heading", name or (f"Slide {number}" if content.blocks else ""), level=1)
        add_part(self.document, content.parsed(Facets()))

    def _add_texts(self, content: TextBuilder, body: Any) -> None:
        kind = _placeholder(body)
        text = _text(body)
        if kind in PAGE_FURNITURE or (kind == "ftr" and text in self._footers):
            return
        if kind == "ftr":
            self._footers.add(text)
        paragraphs = [part for part in body.iterchildren(qn("a:p")) if _line(part)]
        listed = kind in CONTENT and len(paragraphs) > 1
        items: list[str] = []
        counts: dict[int, int] = defaultdict(int)
        for paragraph in paragraphs:
            mark = _mark(paragraph, counts, listed=listed)
            if not mark:
                content.add("list", "\n".join(items).lstrip(" "))
                items = []
                content.add("paragraph", _line(paragraph))
            else:
                items.append(mark + _line(paragraph).replace("\n", " "))
        content.add("list", "\n".join(items).lstrip(" "))


def _shapes(tree: Any) -> Iterator[Any]:
    """The text bodies and tables on a slide, in groups too, in the order in which they are read out."""
    for element in tree.iter(qn("p:txBody"), qn("a:tbl")):
        if next(element.iterancestors(FALLBACK), None) is None:
            yield element


def _placeholder(body: Any) -> str | None:
    """What the slide's layout has the text for; empty for plain content, None outside the layout."""
    place = body.getparent().find(f"*/{qn('p:nvPr')}/{qn('p:ph')}")
    return None if place is None else str(place.get("type", ""))


def _text(body: Any) -> str:
    return "\n".join(filter(None, map(_line, body.iterchildren(qn("a:p")))))


def _line(paragraph: Any) -> str:
    parts = (
        "\n" if element.tag == qn("a:br") else element.text or ""
        for element in paragraph.iter(qn("a:t"), qn("a:br"), MATH_TEXT)
        if next(element.iterancestors(FALLBACK), None) is None
    )
    lines = (" ".join(line.split()) for line in "".join(parts).replace("\v", "\n").split("\n"))
    return "\n".join(filter(None, lines))


def _mark(paragraph: Any, counts: dict[int, int], *, listed: bool) -> str:
    """What stands in front of a list item, its indent too; nothing for a plain paragraph."""
    properties = paragraph.find(qn("a:pPr"))
    found = {child.tag for child in properties} if properties is not None else set()
    level = int(properties.get("lvl", 0)) if properties is not None else 0
    if qn("a:buNone") in found or not (listed or found.intersection(BULLETS)):
        return ""
    for deeper in [n for n in counts if n > level]:
        del counts[deeper]
    counts[level] += 1
    return "  " * min(level, 8) + (f"{counts[level]}. " if qn("a:buAutoNum") in found else "- ")


def _add_table(document: TextBuilder, table: Any) -> None:
    rows = [
        [
            Cell(" ".join(_cell_text(cell).split()), int(cell.get("gridSpan", 1)), int(cell.get("rowSpan", 1)))
            for cell in row.iterchildren(qn("a:tc"))
            if not {cell.get("hMerge", "0"), cell.get("vMerge", "0")} & {"1", "true"}
        ]
        for row in table.iterchildren(qn("a:tr"))
    ]
    properties = table.find(qn("a:tblPr"))
    has_header = properties is not None and properties.get("firstRow", "0") in ("1", "true")
    add_spanned(document, headed(rows, int(has_header)))


def _cell_text(cell: Any) -> str:
    body = cell.find(qn("a:txBody"))
    return "" if body is None else _text(body)


def _add_related(document: TextBuilder, kind: str, part: Any) -> None:
    """Append a chart's values as a table, or the texts of a diagram as a list."""
    if kind.endswith("/chart"):
        for plot in part.chart.plots:
            series = list(plot.series)
            header = [Cell(text, heads=True) for text in ("", *(one.name for one in series))]
            values = zip(map(str, plot.categories), *(one.values for one in series), strict=False)
            rows = [[Cell("" if value is None else str(value)) for value in row] for row in values]
            add_spanned(document, [header, *rows])
    elif kind.endswith("/diagramData"):
        lines = filter(None, map(_line, parse_xml(part.blob).iter(qn("a:p"))))
        document.add("list", "\n".join(f"- {line}" for line in lines))
