"""The elements of an HTML page to blocks."""

from __future__ import annotations

import re
from collections.abc import Callable

from selectolax.lexbor import LexborNode as Node

from ingest.blocks import Parsed, TextBuilder
from ingest.cuts import QUESTION_MARKS
from ingest.parsers.html_tree import Event, is_inline, shown_text, walk
from ingest.parsers.numerals import numeral
from ingest.spanned import Cell, add_spanned
from ingest.tables import introduction_of
from rag.values import Facets

HEADING = re.compile(r"h[1-6]")
WHITESPACE = re.compile(r"\s+")
STYLES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
LAYOUT = "table, h1, h2, h3, h4, h5, h6, pre"  # what a cell of values does not hold
MAX_NUMBER = 1_000_000_000
INNERMOST_LEVEL = 6
MAX_INDENT = 20  # levels of lists; more say nothing


class HtmlReader:
    """Walks a page once; what is open is in the fields."""

    def __init__(self, skipped: frozenset[int]) -> None:
        """Leave out the nodes that *skipped* names by `mem_id`."""
        self._skipped = skipped
        self._document = TextBuilder()
        self._parts: list[str] = []  # of the open paragraph; a line end only where one is shown
        self._heading = 0  # level of the open heading
        self._lists: list[tuple[int, str] | None] = []  # next number and style of each open list, None for bullets
        self._mark = ""  # what stands in front of the next line of the open list item
        self._items: list[str] = []
        self._asked = False  # whether the terms of the open definition list are questions
        self._opened: dict[str, Callable[[Node], None]] = {
            "br": lambda _: self._parts.append("\n"),
            "img": lambda node: self._parts.append(node.attributes.get("alt") or ""),
            "ul": self._list_open,
            "ol": self._list_open,
            "menu": self._list_open,
            "li": self._item_open,
            "dl": lambda _: self._lists.append(None),
            "dt": lambda _: self._mark_line("- "),
            "dd": lambda _: self._mark_line("  "),
            "pre": self._code,
            "table": self._table,
        }
        self._closed: dict[str, Callable[[], None]] = {
            "ul": self._list_close,
            "ol": self._list_close,
            "menu": self._list_close,
            "dl": self._list_close,
        }

    def read(self, root: Node) -> Parsed:
        """The blocks under *root*."""
        for event, node in walk(root, is_leaf=_is_whole, skipped=self._skipped):
            if event is Event.TEXT:
                self._parts.append(WHITESPACE.sub(" ", node.text_content or ""))
            elif event is Event.OPEN:
                self._open(node)
            else:
                self._close(node)
        self._end_paragraph()
        self._end_items()
        return self._document.parsed(Facets())

    def _open(self, node: Node) -> None:
        tag = node.tag or ""
        if tag != "br" and not is_inline(node):
            self._end_paragraph()
        if level := _level(node):
            self._heading = level
        elif (tag != "table" or _is_whole(node)) and (handler := self._opened.get(tag)):
            handler(node)

    def _close(self, node: Node) -> None:
        tag = node.tag or ""
        if tag != "br" and not is_inline(node):
            self._end_paragraph(asks=tag in ("dt", "summary"))
        if _level(node):
            self._heading = 0
        elif handler := self._closed.get(tag):
            handler()

    def _end_paragraph(self, *, asks: bool = False) -> None:
        lines = filter(None, (" ".join(line.split()) for line in "".join(self._parts).split("\n")))
        text = "\n".join(lines)
        self._parts = []
        if not text:
            return
        if self._heading:
            self._end_items()
            self._document.add("heading", " ".join(text.split("\n")), level=self._heading)
        elif self._lists:
            self._items.append(self._mark + text.replace("\n", "\n" + self._indent()))
            self._mark = self._indent()
        else:
            self._document.add("question" if asks and text.endswith(QUESTION_MARKS) else "paragraph", text)

    def _list_open(self, node: Node) -> None:
        style = STYLES.get(node.attributes.get("type") or "", "decimal")
        self._lists.append((_number(node, "start", 1), style) if node.tag == "ol" else None)

    def _item_open(self, node: Node) -> None:
        if not self._lists:
            return
        if numbered := self._lists[-1]:
            number = _number(node, "value", numbered[0])
            self._lists[-1] = (number + 1, numbered[1])
            self._mark_line(f"{numeral(number, numbered[1])}. ")
        else:
            self._mark_line("- ")

    def _mark_line(self, mark: str) -> None:
        self._mark = self._indent(-1) + mark

    def _list_close(self) -> None:
        self._lists.pop()
        self._mark = self._indent()
        if not self._lists:
            self._end_items()

    def _indent(self, levels: int = 0) -> str:
        return "  " * min(len(self._lists) + levels, MAX_INDENT)

    def _end_items(self) -> None:
        caption = introduction_of(self._document.last_paragraph())
        self._document.add("list", "\n".join(self._items).lstrip(" "), caption=caption)
        self._items = []

    def _code(self, node: Node) -> None:
        self._end_items()
        self._document.add("code", _preformatted(node, self._skipped))

    def _table(self, node: Node) -> None:
        self._end_items()
        caption = ""
        rows: list[list[Cell]] = []
        in_head = False
        for event, part in walk(node, is_leaf=_is_cell, skipped=self._skipped):
            match part.tag, event:
                case "thead", _:
                    in_head = event is Event.OPEN
                case "tr", Event.OPEN:
                    rows.append([])
                case "caption", Event.OPEN:
                    caption = shown_text(part, self._skipped)
                case (("td" | "th"), Event.OPEN) if rows:
                    rows[-1].append(_cell(part, shown_text(part, self._skipped), in_head=in_head))
        add_spanned(self._document, rows, caption)


def _level(node: Node) -> int:
    tag = node.tag or ""
    if HEADING.fullmatch(tag):
        return int(tag[1])
    if node.attributes.get("role") == "heading":
        return max(1, min(INNERMOST_LEVEL, _number(node, "aria-level", 2)))
    return 0


def _number(node: Node, attribute: str, default: int) -> int:
    value = node.attributes.get(attribute) or ""
    return min(int(value), MAX_NUMBER) if value.isdecimal() and len(value) <= len(str(MAX_NUMBER)) else default


def _is_whole(node: Node) -> bool:
    """Whether an element is read as one: preformatted text, and a table of values rather than of layout."""
    if node.tag == "pre":
        return True
    if node.tag != "table" or node.attributes.get("role") in ("presentation", "none"):
        return False
    one_column = node.css_first("th, td + td") is None
    return not one_column and not any(_holds(part, LAYOUT) for part in node.iter())


def _holds(node: Node, selector: str) -> bool:
    return node.css_first(selector) is not None


def _is_cell(node: Node) -> bool:
    return node.tag in ("td", "th", "caption")


def _cell(node: Node, text: str, *, in_head: bool) -> Cell:
    bold = node.css_first("b, strong") if text else None
    heads = in_head or node.tag == "th" or (bold is not None and " ".join(bold.text().split()) == text)
    columns, rows = _number(node, "colspan", 1), _number(node, "rowspan", 1)
    return Cell(text, max(columns, 1), max(rows, 1), heads)


def _preformatted(node: Node, skipped: frozenset[int]) -> str:
    parts: list[str] = []
    for event, part in walk(node, is_leaf=lambda _: False, skipped=skipped):
        if event is Event.TEXT:
            parts.append(part.text_content or "")
        elif part.tag == "br" and event is Event.OPEN:
            parts.append("\n")
    return "".join(parts).strip("\n")
