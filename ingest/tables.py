"""Tables as text: one line a row, every value beside its own column's name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.rules_block.table import escapedSplit

from ingest.cuts import COLONS

CAPTION_CHARS = 200  # a longer paragraph is prose, and a caption is repeated in every chunk of its table
MAX_NAME_CHARS = 200  # a longer cell is no column name, and names are repeated in each row
SHORT_LINE_CHARS = 100  # a lone line this short in front of a table names it

Row = tuple[str, ...]


def caption_of(paragraph: str) -> str:
    """*paragraph* if it introduces the table right after it, else an empty text."""
    if len(paragraph) > CAPTION_CHARS:
        return ""
    named = paragraph.endswith(COLONS) or re.match(r"Tab(le|\.)\s", paragraph)
    lone_line = len(paragraph) <= SHORT_LINE_CHARS and "\n" not in paragraph
    return paragraph if named or lone_line else ""


def introduction_of(paragraph: str) -> str:
    """*paragraph* if it introduces the list or clause right after it, else an empty text."""
    return caption_of(paragraph) if paragraph.endswith(COLONS) else ""


def extra_cells(line: str, columns: int) -> list[str]:
    """The raw cells of a source row beyond its header's *columns*, which the Markdown parser drops."""
    cells = escapedSplit(line.lstrip(" \t>").rstrip())
    if cells and not cells[0]:
        cells = cells[1:]
    if cells and not cells[-1]:
        cells = cells[:-1]
    return cells[columns:]


def labelled_rows(header: Row, body: Sequence[Row]) -> tuple[Row, ...]:
    """The fields of each row that has any; the bare header too, where some column's name would be lost without it.

    A header with a cell too long for a name is a row like the others.
    """
    if any(len(name) > MAX_NAME_CHARS for name in header):
        header, body = (), [header, *body]
    rows = [_fields(header, cells) for cells in body]
    unused = [name for n, name in enumerate(header) if name and not any(n < len(row) and row[n] for row in body)]
    if unused:
        rows.insert(0, tuple(filter(None, header)))
    return tuple(row for row in rows if row)


def _fields(header: Row, cells: Row) -> Row:
    names = (*header, *[""] * (len(cells) - len(header)))
    return tuple(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)


def row_line(fields: Row) -> str:
    """A row as it stands in the document's text."""
    return "; ".join(fields)
