"""Tables of figures on a page of print, told by their columns alone: labels to the left, numbers under their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ingest.parsers.page_layout import Line
from ingest.tables import Row
from ingest.typography import rejoin

FIGURE = re.compile(r"[$€£¥(+−–-]{0,3}\s?[$€£¥]?\s?\d[\d.,]*\s?[%)]{0,2}\*?|[—–-]|[nN]/[aA]")
AMOUNT = re.compile(r"[$€£¥]|\d,\d{3}|\(\d")  # no column is named so
YEAR = re.compile(r"(?:FY\s?)?(?:19|20)\d\d")
CURRENCY = frozenset("$€£¥")
CLOSING = frozenset({")", "%", ")%", "%)"})
MIN_ROWS = 3  # of figures; fewer may stand side by side by chance
MIN_COLUMNS = 2
MAX_GAP = 2.5  # heights of a row; a wider one ends the table
MAX_HEADER_ROWS = 5
MAX_LABEL_ROWS = 4  # between two rows of figures
OFF_CENTRE = 0.15  # of the width of the columns that a name stands over
OVERHANG = 60.0  # points by which a name may begin left of its column
NEAR = 3.0  # points between what stands over one another
INDENT = 1.0
MAX_NAME_CHARS = 80  # longer cells in the first row of a drawn table are its first values

Columns = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table where it stands; `rows` are finished fields."""

    x0: float
    top: float
    x1: float
    bottom: float
    figure_rows: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _PrintRow:
    label: Line | None
    cells: tuple[Line, ...]
    lines: tuple[Line, ...]

    @property
    def top(self) -> float:
        return min(line.top for line in self.lines)

    @property
    def bottom(self) -> float:
        return max(line.bottom for line in self.lines)


def figure_tables(rows: Sequence[Sequence[Line]]) -> list[FigureTable]:
    """The tables among the *rows* of a page, each of which is its pieces from left to right."""
    printed = [_print_row(_merged(row)) for row in rows if row]
    tables: list[FigureTable] = []
    free = at = 0
    while at < len(printed):
        end = _end(printed, at)
        if columns := _columns(printed[at:end]):
            tables.append(_table(_Head.above(printed[free:at], printed[at], columns), printed[at:end], columns))
            free = end
        at = max(end, at + 1)
    return tables


def names_columns(rows: Sequence[Row]) -> bool:
    """Whether the first cells side by side of a drawn table name its columns: words and years, none of them long."""
    names = [cell for cell in next((row for row in rows if len({*row} - {""}) > 1), ()) if cell]
    return bool(names) and not any(
        len(name) > MAX_NAME_CHARS or name in CURRENCY or (FIGURE.fullmatch(name) and not YEAR.fullmatch(name))
        for name in names
    )


def _merged(row: Sequence[Line]) -> list[Line]:
    """The pieces with currency signs, brackets and percent signs at the figures they belong to."""
    merged: list[Line] = []
    for line in row:
        joins = merged and (merged[-1].text in CURRENCY or line.text in CLOSING)
        if joins:
            last = merged.pop()
            blank = "" if line.text in CLOSING or last.text in CURRENCY else " "
            line = replace(last, text=f"{last.text}{blank}{line.text}", x1=line.x1)
        merged.append(line)
    return merged


def _print_row(lines: Sequence[Line]) -> _PrintRow:
    """The row with its cells if it is one of figures, and without any otherwise."""
    label = None if FIGURE.fullmatch(lines[0].text) else lines[0]
    cells = tuple(lines[1:] if label else lines)
    figures = all(FIGURE.fullmatch(cell.text) for cell in cells)
    if not figures or all(YEAR.fullmatch(cell.text) for cell in cells):  # years name columns
        cells = ()
    return _PrintRow(label, cells, tuple(lines))


def _end(rows: Sequence[_PrintRow], begin: int) -> int:
    """The end of the rows of figures, and labels between them, from *begin* on; *begin* if none is there."""
    if not rows[begin].cells:
        return begin
    end = begin + 1
    left = rows[begin].cells[0].x0
    for at in range(begin + 1, len(rows)):
        row, above = rows[at], rows[at - 1]
        if row.top - above.bottom > MAX_GAP * (above.bottom - above.top) or at - end >= MAX_LABEL_ROWS:
            break
        if row.cells:
            end = at + 1
            left = min(left, row.cells[0].x0)
        elif len(row.lines) > 1 or (row.lines[0].x1 > left and not _goes_on(rows[at + 1 : at + 2])):
            break
    return end


def _goes_on(below: Sequence[_PrintRow]) -> bool:
    """Whether the next row is one of figures whose label does not begin there."""
    return any(row.cells and row.label is not None and row.label.text[:1].islower() for row in below)


def _columns(rows: Sequence[_PrintRow]) -> Columns:
    """Where the figures of a table stand; nothing if the rows are none."""
    figures = [row for row in rows if row.cells]
    columns = _united((cell.x0, cell.x1) for row in figures for cell in row.cells)
    if len(figures) < MIN_ROWS or len(columns) < MIN_COLUMNS:
        return ()
    full = sum(len(row.cells) >= MIN_COLUMNS for row in figures)
    alone = all(len({_column(cell, columns) for cell in row.cells}) == len(row.cells) for row in figures)
    beside = all(row.lines[0].x1 <= columns[0][0] for row in figures if row.label)
    return columns if 2 * full > len(figures) and alone and beside else ()


def _united(spans: Iterator[tuple[float, float]]) -> list[tuple[float, float]]:
    united: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _column(cell: Line, columns: Columns) -> int:
    return next(n for n, (start, end) in enumerate(columns) if start <= cell.x0 <= end)


@dataclass(slots=True)
class _Head:
    """What stands above a table's first figures: the names of its columns, and labels."""

    names: list[list[str]]
    over_labels: list[str] = field(default_factory=list)
    labels: list[_PrintRow] = field(default_factory=list)  # what the first figures stand under
    lines: list[Line] = field(default_factory=list)

    @classmethod
    def above(cls, rows: Sequence[_PrintRow], first: _PrintRow, columns: Columns) -> _Head:
        """The head that *rows* end with; an empty one if it names less than half of the columns."""
        head = cls([[] for _ in columns])
        below = first
        for row in reversed(rows[-MAX_HEADER_ROWS:]):
            if below.top - row.bottom > MAX_GAP * (row.bottom - row.top) or not head.takes(row, columns):
                break
            head.lines += row.lines
            below = row
        return head if 2 * sum(map(bool, head.names)) > len(columns) else cls([[] for _ in columns])

    def takes(self, row: _PrintRow, columns: Columns) -> bool:
        """Whether the row belongs to the head, which then holds its words."""
        over_label = row.lines[0] if row.lines[0].x1 <= columns[0][0] else None
        if over_label and len(row.lines) == 1:
            if any(self.names):
                return False
            self.labels.insert(0, row)
            return True
        named = _named(row.lines[1:] if over_label else row.lines, columns)
        for column, text in named.items():
            self.names[column].insert(0, text)
        if named and over_label:
            self.over_labels.insert(0, over_label.text)
        return bool(named)


def _named(lines: Sequence[Line], columns: Columns) -> dict[int, str]:
    """The words over each column; nothing if some of them stand over none."""
    named: dict[int, str] = _grouped(lines, columns)
    if named or any(AMOUNT.search(line.text) for line in lines):
        return named
    if len(lines) == 1 and lines[0].text.startswith("("):  # a unit in the middle of the page
        return {}
    for line in lines:
        under = [n for n, (start, end) in enumerate(columns) if line.x0 < end + NEAR and line.x1 > start - NEAR]
        if not under or line.x0 < columns[0][0] - OVERHANG or named.keys() & set(under):
            return {}
        named.update(dict.fromkeys(under, line.text))
    return named


def _grouped(lines: Sequence[Line], columns: Columns) -> dict[int, str]:
    """The words over columns in groups of the same number, each word over the middle of its group."""
    if not lines or len(lines) >= len(columns) or len(columns) % len(lines):
        return {}
    size = len(columns) // len(lines)
    for n, line in enumerate(lines):
        (start, _), (_, end) = columns[n * size], columns[(n + 1) * size - 1]
        off = abs(start + end - line.x0 - line.x1) / 2
        if off > OFF_CENTRE * (end - start) or AMOUNT.search(line.text) or line.x0 < start - OVERHANG:
            return {}
    return {column: lines[column // size].text for column in range(len(columns))}


def _table(head: _Head, body: Sequence[_PrintRow], columns: Columns) -> FigureTable:
    writer = _FieldWriter(columns, [" ".join(words) for words in head.names])
    rows = [(text,) for text in head.over_labels] + writer.write([*(head.labels if head.lines else ()), *body])
    lines = [*head.lines, *(line for row in body for line in row.lines)]
    return FigureTable(
        min(line.x0 for line in lines),
        min(line.top for line in lines),
        max(line.x1 for line in lines),
        max(line.bottom for line in lines),
        sum(bool(row.cells) for row in body),
        tuple(rows),
    )


@dataclass(slots=True)
class _FieldWriter:
    """Rows to fields: each figure beside its column's name, each label under those it is indented under."""

    columns: Columns
    names: Sequence[str]
    _above: list[Line] = field(default_factory=list)  # labels without figures, innermost last
    _begun: str = ""  # a label that goes on in the next row

    def write(self, rows: Sequence[_PrintRow]) -> list[Row]:
        """The fields of each row that has any of its own."""
        below: list[_PrintRow | None] = [*rows[1:], None]
        written = (self._fields(row, after) for row, after in zip(rows, below, strict=True))
        return [fields for fields in written if fields]

    def _fields(self, row: _PrintRow, below: _PrintRow | None) -> Row:
        lines = f"{self._begun}\n{row.label.text if row.label else ''}"
        label = " ".join(rejoin(lines, frozenset()).split())
        if row.label is not None:
            self._above = [line for line in self._above if line.x0 < row.label.x0 - INDENT]
        self._begun = ""
        if row.cells:
            words = (*(line.text.rstrip(": ") for line in self._above), label)
            if label.lower().startswith("total"):
                self._above = self._above[:-1]
            return tuple(filter(None, (": ".join(filter(None, words)), *map(self._figure, row.cells))))
        next_label = below.label if below is not None else None
        if next_label is not None and next_label.text[:1].islower():
            self._begun = label
        elif next_label is not None and row.label is not None and next_label.x0 > row.label.x0 + INDENT:
            self._above.append(replace(row.label, text=label))
        else:
            return (label,)
        return ()

    def _figure(self, cell: Line) -> str:
        name = self.names[_column(cell, self.columns)]
        return f"{name}: {cell.text}" if name else cell.text
