"""Tables of cells that span rows and columns, as rows with every value beside its column's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest

from ingest.blocks import TextBuilder
from ingest.cuts import COLONS
from ingest.tables import MAX_NAME_CHARS, Row, caption_of, labelled_rows, row_line

MAX_COPIED_CHARS = 1_000_000  # what spans may add to a document, whatever they claim
MAX_COLUMNS = 1000  # as browsers limit them
ROWS_TO_GUESS = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell where it begins, with the columns and rows it covers."""

    text: str
    columns: int = 1
    rows: int = 1
    heads: bool = False


CellRow = Sequence[Cell]


def add_spanned(document: TextBuilder, rows: Sequence[CellRow], caption: str = "") -> None:
    """Append the table; without a *caption* of its own, the line in front or the row across its top is one."""
    rows = [row for row in rows if row]
    width = _width(rows)
    document.add("paragraph", caption)
    while rows and _is_banner(rows[0], width):
        document.add("paragraph", rows[0][0].text)
        rows = rows[1:]
    fields = _fields(rows, width)
    caption = caption or caption_of(document.last_paragraph())
    document.add("table", "\n".join(map(row_line, fields)), caption=caption, rows=fields)


def headed(rows: Sequence[CellRow], depth: int) -> list[CellRow]:
    """The rows with the first *depth* as their header; a single one that spans columns is over a second."""
    if depth == 1 and len(rows) > 1 and len(rows[0]) > 1 and any(cell.columns > 1 for cell in rows[0]):
        depth = 2
    return [[replace(cell, heads=n < depth) for cell in row] for n, row in enumerate(rows)]


def _fields(rows: Sequence[CellRow], width: int) -> tuple[Row, ...]:
    if rows and all(map(_is_named, rows)):
        return tuple(_named(*row) for row in rows)
    depth = _header_depth(rows)
    filled = _filled(rows, width)
    names = tuple(" ".join(dict.fromkeys(filter(None, column))) for column in zip_longest(*filled[:depth]))
    if any(len(name) > MAX_NAME_CHARS for name in names):
        return labelled_rows((), filled)
    return labelled_rows(names, filled[depth:])


def _is_named(row: CellRow) -> bool:
    """Whether the row is a name and its value."""
    if len(row) != 2:  # noqa: PLR2004
        return False
    name, value = row
    return (name.heads and not value.heads) or name.text.endswith(COLONS)


def _named(name: Cell, value: Cell) -> Row:
    texts = tuple(filter(None, (name.text.rstrip("".join(COLONS)), value.text)))
    return (": ".join(texts),) if texts else ()


def _is_banner(row: CellRow, width: int) -> bool:
    return len(row) == 1 < width <= row[0].columns


def _width(rows: Sequence[CellRow]) -> int:
    return min(MAX_COLUMNS, max((sum(cell.columns for cell in row) for row in rows if len(row) > 1), default=1))


def _header_depth(rows: Sequence[CellRow]) -> int:
    """How many rows name the columns; none when there would be no other row."""
    depth = sum(1 for _ in takewhile(_heads, rows))
    depth = max([depth, *(n + cell.rows for n, row in enumerate(rows[:depth]) for cell in row)]) if depth else 0
    return (depth or _guessed_depth(rows)) if depth < len(rows) else 0


def _heads(row: CellRow) -> bool:
    return any(cell.heads for cell in row) and all(cell.heads or not cell.text for cell in row)


def _guessed_depth(rows: Sequence[CellRow]) -> int:
    """One where the first row is all words and a column below it is all numbers."""
    if len(rows) < ROWS_TO_GUESS or any(len(row) != len(rows[0]) for row in rows):
        return 0
    first, *others = rows
    worded = len(first) > 1 and all(cell.text and not _has_digit(cell) for cell in first)
    return int(worded and any(all(map(_has_digit, column)) for column in zip(*others, strict=True)))


def _has_digit(cell: Cell) -> bool:
    return any(map(str.isdecimal, cell.text))


def _filled(rows: Sequence[CellRow], width: int) -> list[Row]:
    """Rows of one width with spanning values in each place they cover; a row across all columns stands behind them."""
    copying = _Copying()
    covered: dict[int, tuple[str, int]] = {}  # by column: a value from above, and the rows it still covers
    filled: list[Row] = []
    for cells in rows:
        if not covered and _is_banner(cells, width):
            filled.append((*[""] * width, cells[0].text))
            continue
        row: dict[int, str] = {}
        for column, (text, _) in covered.items():
            row[column] = copying.copy(text)
        covered = {column: (text, left - 1) for column, (text, left) in covered.items() if left > 1}
        column = 0
        for cell in cells:
            while column in row:
                column += 1
            for n in range(column, min(column + cell.columns, max(width, column + 1))):
                row[n] = cell.text if n == column else copying.copy(cell.text)
                if cell.rows > 1:
                    covered[n] = (cell.text, cell.rows - 1)
        filled.append(tuple(row.get(n, "") for n in range(max([width - 1, *row]) + 1)))
    return filled


class _Copying:
    def __init__(self) -> None:
        self._left = MAX_COPIED_CHARS

    def copy(self, text: str) -> str:
        self._left -= len(text) + 1
        return text if self._left >= 0 else ""
