"""The rows and cells of a Word table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

from docx.oxml.ns import qn

from ingest.parsers.docx_styles import child_value
from ingest.parsers.docx_text import WRAPPERS, chosen
from ingest.spanned import Cell, CellRow, headed

MAX_SPAN = 63  # columns of a table in Word
FIRST_ROW = 0x20  # a bit of the older form of tblLook
OFF = ("0", "false", "off")


def rows_of(table: Any) -> list[Any]:
    """The rows that are not deleted."""
    return [row for row in _children(table, qn("w:tr")) if row.find(f"{qn('w:trPr')}/{qn('w:del')}") is None]


def cells_of(row: Any) -> list[Any]:
    """The cells of a row."""
    return list(_children(row, qn("w:tc")))


def _children(element: Any, tag: str) -> Iterator[Any]:
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in WRAPPERS:
            yield from _children(chosen(child), tag)


def is_layout(table: Any) -> bool:
    """Whether the table only places text: it holds another table, or has a single column."""
    holds_table = next(table.iterdescendants(qn("w:tbl")), None) is not None
    return holds_table or all(len(cells_of(row)) <= 1 for row in rows_of(table))


def cell_rows(table: Any, text_of: Callable[[Any], str]) -> list[CellRow]:
    """The table's cells where they begin, those that continue the one above counted to it; its header marked."""
    rows = rows_of(table)
    placed = [dict(_placed(row)) for row in rows]
    cells: list[CellRow] = []
    for n, columns in enumerate(placed):
        cells.append(
            [
                Cell(text_of(cell) if cell is not None else "", _span(cell), _height(placed, n, column))
                for column, cell in columns.items()
                if not _continues(cell)
            ]
        )
    return headed(cells, _header_rows(table, rows))


def _placed(row: Any) -> Iterator[tuple[int, Any]]:
    """The cells by the column where they begin."""
    properties = row.find(qn("w:trPr"))
    column = int(child_value(properties, "w:gridBefore") or 0) if properties is not None else 0
    yield from ((n, None) for n in range(min(column, MAX_SPAN)))
    for cell in cells_of(row):
        yield column, cell
        column += _span(cell)


def _span(cell: Any) -> int:
    properties = cell.find(qn("w:tcPr")) if cell is not None else None
    return max(1, min(int(child_value(properties, "w:gridSpan") or 1), MAX_SPAN)) if properties is not None else 1


def _continues(cell: Any) -> bool:
    merge = cell.find(f"{qn('w:tcPr')}/{qn('w:vMerge')}") if cell is not None else None
    return merge is not None and merge.get(qn("w:val"), "continue") == "continue"


def _height(placed: list[dict[int, Any]], row: int, column: int) -> int:
    end = row + 1
    while end < len(placed) and _continues(placed[end].get(column)):
        end += 1
    return end - row


def _header_rows(table: Any, rows: list[Any]) -> int:
    """The rows repeated on each page; else the first, unless the table's look says that it is like the others."""
    repeated = sum(1 for _ in takewhile(_is_repeated, rows))
    look = table.find(f"{qn('w:tblPr')}/{qn('w:tblLook')}")
    if repeated or look is None:
        return repeated or 1
    if first_row := look.get(qn("w:firstRow")):
        return int(first_row not in OFF)
    return int(bool(int(look.get(qn("w:val"), "0020"), 16) & FIRST_ROW))


def _is_repeated(row: Any) -> bool:
    mark = row.find(f"{qn('w:trPr')}/{qn('w:tblHeader')}")
    return mark is not None and mark.get(qn("w:val"), "1") not in OFF
