"""Cells of a sheet to tables: titles, header and body told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ingest.blocks import TextBuilder
from ingest.cuts import COLONS
from ingest.tables import Row, caption_of, labelled_rows, row_line

HEADED_ROWS = 3  # two of header and one of values
NUMBER = re.compile(r"[^\w]{0,3}\d[\d.,' \u00a0\u202f]*(?:[eE][+-]?\d+)?\W{0,3}|\d{4}-\d\d-\d\d.*")


def add_grid(document: TextBuilder, rows: Iterable[Sequence[str]]) -> None:
    """Append the *rows* as tables: blank rows divide them, lone cells above a table are its titles."""
    header: Row = ()
    for table in _regions(rows):
        width = max(map(len, table))
        while table and (width > 1 or len(table) == 1) and sum(map(bool, table[0])) == 1:
            document.add("paragraph", next(filter(None, table.pop(0))))
            header = ()
        if not table:
            continue
        if form := form_rows(table):
            add_rows(document, form)
            continue
        if not header or len(header) < width or _names_columns(table):
            header, table = _header(table, width)
        add_rows(document, labelled_rows(header, table))


def add_rows(document: TextBuilder, rows: tuple[Row, ...]) -> None:
    """Append rows of fields as a table, named by the short paragraph before it."""
    document.add("table", "\n".join(map(row_line, rows)), caption=caption_of(document.last_paragraph()), rows=rows)


def form_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The fields of a form, whose labels end with colons and stand before their values; nothing if it is none."""
    if 2 * sum(1 for row in rows if row and row[0].endswith(COLONS)) <= len(rows):
        return ()
    return tuple(fields for row in rows if (fields := tuple(_form_fields(row))))


def _form_fields(row: Row) -> Iterator[str]:
    label = ""
    for cell, _ in groupby(filter(None, row)):  # a cell over several columns stands in each
        if label and not cell.endswith(COLONS):
            yield f"{label} {cell}"
            label = ""
            continue
        if label:
            yield label
        label = cell if cell.endswith(COLONS) else ""
        if not label:
            yield cell
    if label:
        yield label


def _regions(rows: Iterable[Sequence[str]]) -> Iterator[list[Row]]:
    cleaned = (_trimmed(tuple(" ".join(cell.split()) for cell in row)) for row in rows)
    return (list(group) for filled, group in groupby(cleaned, key=bool) if filled)


def _trimmed(row: Row) -> Row:
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def _names_columns(table: Sequence[Row]) -> bool:
    """Whether the first row is names over values: texts only, with a number somewhere in the row below."""
    first = [cell for cell in table[0] if cell]
    named = len(first) > 1 and len(set(first)) == len(first) and not any(map(NUMBER.fullmatch, first))
    return named and len(table) > 1 and any(NUMBER.fullmatch(cell) for cell in table[1])


def _header(table: list[Row], width: int) -> tuple[Row, list[Row]]:
    """The column names, and the rows below: a gap in the first row that the second one fills is a second header."""
    first = table[0] + ("",) * (width - len(table[0]))
    if all(NUMBER.fullmatch(cell) for cell in first if cell):
        return (), table
    if len(table) >= HEADED_ROWS and not (table[1][0] and table[1][0] != first[0]) and _is_second(first, table[1]):
        second = table[1] + ("",) * (width - len(table[1]))
        above = ""
        joined = []
        for upper, lower in zip(first, second, strict=True):
            above = upper or (above if lower else "")
            joined.append(" ".join(dict.fromkeys(filter(None, (above, lower)))))
        return tuple(joined), table[2:]
    return first, table[1:]


def _is_second(first: Row, second: Row) -> bool:
    """Whether *second* only names parts of columns: texts, one of them under a gap or a repeated name of *first*."""
    spans = [not upper or first.count(upper) > 1 for upper in first]
    texts = not any(NUMBER.fullmatch(cell) for cell in second if cell)
    return texts and any(cell and span for cell, span in zip(second, spans, strict=False))
