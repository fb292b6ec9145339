"""What stands on a page of print, in the order it is read: columns one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ingest.tables import Row

MIN_GUTTER = 5.0  # points
COLUMN_ROWS = 3  # fewer lines side by side are a row, not columns
COLUMN_CHARS = 20  # columns of shorter lines are labels and values, read row by row
CARRIED_LINES = 6
MAX_DEPTH = 8
NUMBER_CHARS = 10  # of a heading, as `Item 1A.`; longer words beside others are a label


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of a line with its place in points from the page's top left; `rows` if it is a table instead.

    The rows are cells, or finished fields where it `is_read`.
    """

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float = 0.0
    row: int = 0
    rows: tuple[Row, ...] = ()
    is_read: bool = False
    is_bold: bool = False


def reading_order(lines: Iterable[Line], depth: int = 0) -> list[Line]:
    """The lines as they are read; those side by side in no column are joined."""
    ordered: list[Line] = []
    for band in _bands(sorted(lines, key=lambda line: (line.row, line.x0))):
        columns = _columns(band) if depth < MAX_DEPTH else []
        if columns:
            ordered += (line for column in columns for line in reading_order(column, depth + 1))
        else:
            ordered += band
    return list(_joined_rows(ordered))


def _bands(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Neighbours between which an upright gap runs all the way down, and the others one by one."""
    band: list[Line] = []
    covered: list[tuple[float, float]] = []
    for line in lines:
        wider = _covered([*covered, (line.x0, line.x1)])
        if band and len(wider) == 1:
            kept = _beside_which(line, band)
            yield band[: len(band) - kept]
            band = band[len(band) - kept :]
            wider = _covered([(other.x0, other.x1) for other in (*band, line)])
        band.append(line)
        covered = wider
    if band:
        yield band


def _beside_which(line: Line, band: Sequence[Line]) -> int:
    """How many of the last lines of a band that *line* ends stand in columns with it: columns begin there."""
    covered = [(line.x0, line.x1)]
    for n, other in enumerate(band[: -CARRIED_LINES - 1 : -1]):
        covered = _covered([*covered, (other.x0, other.x1)])
        if len(covered) == 1:
            return n if n < len(band) else 0
    return min(len(band) - 1, CARRIED_LINES)


def _covered(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] < MIN_GUTTER:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _columns(band: Sequence[Line]) -> list[list[Line]]:
    """The band by column, if all of them are running text."""
    spans = _covered([(line.x0, line.x1) for line in band])
    if len(spans) == 1:
        return []
    columns = [[line for line in band if start <= line.x0 <= end] for start, end in spans]
    return columns if all(map(_is_column, columns)) else []


def _is_column(lines: Sequence[Line]) -> bool:
    if any(line.rows for line in lines):
        return True
    return len(lines) >= COLUMN_ROWS and median(len(line.text) for line in lines) >= COLUMN_CHARS


def _joined_rows(lines: Sequence[Line]) -> Iterator[Line]:
    current: Line | None = None
    for line in lines:
        beside = current is not None and current.row == line.row and line.x0 >= current.x1
        if current and beside and not (line.rows or current.rows):
            current = _beside(current, line)
            continue
        if current:
            yield current
        current = line
    if current:
        yield current


def _beside(left: Line, right: Line) -> Line:
    return replace(
        left,
        text=f"{left.text} {right.text}",
        x1=right.x1,
        top=min(left.top, right.top),
        bottom=max(left.bottom, right.bottom),
        size=max(left.size, right.size),
        is_bold=left.is_bold and right.is_bold and len(left.text) <= NUMBER_CHARS,
    )
