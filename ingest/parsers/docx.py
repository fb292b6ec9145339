"""Word documents to blocks, in the order of the text: headings by outline level, lists with their numbers, tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.docx_numbering import Numbering, read_numbering
from ingest.parsers.docx_styles import Styles
from ingest.parsers.docx_tables import cell_rows, cells_of, is_layout, rows_of
from ingest.parsers.docx_text import COMMENT, NOTES, WRAPPERS, TextRun, chosen, read_text
from ingest.parsers.office import read_facets, read_office
from ingest.spanned import add_spanned
from ingest.tables import introduction_of
from rag.errors import InvalidInput
from rag.values import Facets

KIND = "Word document (.docx)"


def parse_docx(data: bytes) -> Parsed:
    """The body in order; notes and comments follow their paragraph, page headers and footers stand once at the top.

    Raises InvalidInput for a file that is encrypted, damaged, no Word document or without text.
    """
    parsed, facets = read_office(data, KIND, _read)
    if not parsed.text:
        raise InvalidInput("This document has no text; its pages may be pictures.")
    return replace(parsed, facets=facets if facets.title else replace(facets, title=parsed.first_heading()))


def _read(stream: BinaryIO) -> tuple[Parsed, Facets]:
    document = docx.Document(stream)
    parts: dict[str, list[Any]] = {}
    for relationship in document.part.rels.values():
        if not relationship.is_external:
            parts.setdefault(relationship.reltype.rpartition("/")[2], []).append(relationship.target_part)
    reader = _Reader({kind: [_root(part) for part in parts.get(kind, [])] for kind in READ_PARTS})
    return reader.read(document.element.body), read_facets(document.part.package)


READ_PARTS = ("styles", "numbering", "footnotes", "endnotes", "comments", "header", "footer")


def _root(part: Any) -> Any:
    element = getattr(part, "element", None)
    return parse_xml(part.blob) if element is None else element


class _Reader:
    def __init__(self, roots: dict[str, list[Any]]) -> None:
        self._roots = roots
        self._document = TextBuilder()
        self._styles = Styles(roots["styles"])
        self._numbering = read_numbering(roots["numbering"][0]) if roots["numbering"] else Numbering()
        self._notes = {
            (root.tag, note.get(qn("w:id"))): note
            for kind in ("footnotes", "endnotes", "comments")
            for root in roots[kind]
            for note in root
        }
        self._items: list[str] = []  # lines of the open list
        self._beside: list[Any] = []  # text boxes and references met in the open block

    def read(self, body: Any) -> Parsed:
        self._document.add("paragraph", "\n".join(self._page_lines()))
        self._blocks(body)
        self._end_items()
        return self._document.parsed(Facets())

    def _page_lines(self) -> dict[str, None]:
        """The different lines of all page headers, then footers, without bare page numbers."""
        roots = [*self._roots["header"], *self._roots["footer"]]
        lines = (read_text(part).text for root in roots for part in root.iter(qn("w:p")))
        return {line: None for line in lines if any(map(str.isalpha, line))}

    def _blocks(self, container: Any) -> None:
        for element in container:
            if element.tag == qn("w:p"):
                self._paragraph(element)
            elif element.tag == qn("w:tbl"):
                self._end_items()
                self._table(element)
            elif element.tag in WRAPPERS:
                self._blocks(chosen(element))

    def _paragraph(self, element: Any) -> None:
        style = self._styles.of(element)
        if style.is_contents:  # its lines are the headings once more
            return
        text, mark = self._marked(element)
        if text and style.heading:
            self._end_items()
            self._document.add("heading", mark.replace("- ", "") + " ".join(text.split()), level=style.heading)
        elif text and mark:
            indent = "  " * style.list_level
            self._items.append(indent + mark + text.replace("\n", f"\n{indent}  "))
        elif text:
            self._end_items()
            self._document.add("paragraph", text)
        self._add_beside()

    def _marked(self, element: Any) -> tuple[str, str]:
        """The paragraph's text, and the number or bullet that Word shows in front."""
        run: TextRun = read_text(element)
        self._beside += run.beside
        style = self._styles.of(element)
        return run.text, self._numbering.mark(style.number_id, style.list_level) if run.text and style.number_id else ""

    def _end_items(self) -> None:
        caption = introduction_of(self._document.last_paragraph())
        self._document.add("list", "\n".join(self._items).lstrip(" "), caption=caption)
        self._items = []

    def _add_beside(self) -> None:
        beside, self._beside = self._beside, []
        if beside:
            self._end_items()
        for element in beside:
            if element.tag not in NOTES:
                self._blocks(element)
            elif (note := self._notes.get((NOTES[element.tag], element.get(qn("w:id"))))) is not None:
                text = "\n".join(filter(None, (read_text(part).text for part in note.iter(qn("w:p")))))
                author = note.get(qn("w:author")) if element.tag == COMMENT else None
                self._document.add("paragraph", f"Comment by {author}: {text}" if author and text else text)

    def _table(self, table: Any) -> None:
        if is_layout(table):
            for row in rows_of(table):
                for cell in cells_of(row):
                    self._blocks(cell)
            return
        add_spanned(self._document, cell_rows(table, self._cell_text))
        self._add_beside()

    def _cell_text(self, cell: Any) -> str:
        return " ".join(" ".join(mark + text for text, mark in self._cell_paragraphs(cell)).split())

    def _cell_paragraphs(self, container: Any) -> Iterator[tuple[str, str]]:
        for element in container:
            if element.tag == qn("w:p"):
                yield self._marked(element)
            elif element.tag in WRAPPERS:
                yield from self._cell_paragraphs(chosen(element))
