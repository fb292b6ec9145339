"""A PDF page to lines and tables in reading order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from pdfplumber.page import Page
from pdfplumber.table import Table
from pdfplumber.utils.clustering import cluster_objects

from ingest.parsers.figure_tables import CURRENCY, FIGURE, FigureTable, figure_tables, names_columns
from ingest.parsers.page_layout import Line, reading_order
from ingest.tables import Row
from ingest.typography import plain_letters, rejoin

WORD_GAP = 0.15  # of the letter's size; narrower gaps are kerning
SEGMENT_GAP = 1.0  # of the letter's size; wider than the blanks of justified text
BOLD = re.compile(r"(?i)bold|black|heavy|demi")  # in the name of a font
FIGURE_GAP = 0.4  # wider than a blank
SAME_ROW = 3.0  # points
DISTINCT_SHARE = 0.9  # of letters; ordinary text has hardly two of the same in one place
MAX_EDGES = 4000  # drawings have more, and finding tables takes the square of them
UNMAPPED = re.compile(r"\(cid:\d+\)")  # a glyph of which the file does not say what letter it is

Word = dict[str, Any]
Box = tuple[float, float, float, float]


def read_page(page: Page) -> list[Line]:
    """The page's lines and tables as they are read, then what is printed up or down the page."""
    if _is_doubled(page.chars):
        page = page.dedupe_chars()
    words = page.filter(_is_upright).extract_words(x_tolerance_ratio=WORD_GAP, return_chars=True)
    ruled = [_ruled_line(table, rows) for table, rows in _tables(page)]
    tables = _without_overlaps(ruled, [_figure_line(table) for table in figure_tables(list(_rows(words)))])
    outside = [word for word in words if not any(_inside(word, _box(table)) for table in tables)]
    return reading_order(_lines(outside, tables)) + _rotated(page)


def _is_doubled(chars: list[Word]) -> bool:
    """Whether letters are printed twice to look bold."""
    places = {(char["text"], round(char["x0"] / 2), round(char["top"] / 2)) for char in chars}
    return len(places) < DISTINCT_SHARE * len(chars)


def _is_upright(thing: Word) -> bool:
    return bool(thing.get("upright", True))


def _rotated(page: Page) -> list[Line]:
    turned = page.filter(lambda thing: not _is_upright(thing))
    if not turned.chars:
        return []
    upward = turned.chars[0]["matrix"][1] > 0
    across, along = ("ltr", "btt") if upward else ("rtl", "ttb")
    text = turned.extract_text(line_dir_rotated=across, char_dir_rotated=along, x_tolerance_ratio=WORD_GAP)
    _, top, right, bottom = page.bbox
    return [Line(line.strip(), right, right, top, bottom) for line in text.split("\n") if line.strip()]


def _rows(words: list[Word]) -> Iterator[list[Line]]:
    """The words by row, and in it by wide gaps."""
    for number, row in enumerate(cluster_objects(words, itemgetter("bottom"), SAME_ROW)):
        segments = _segments(sorted(row, key=itemgetter("x0")))
        yield [_line(piece, number) for segment in segments for piece in _figures_apart(segment)]


def _lines(words: list[Word], tables: Sequence[Line]) -> Iterator[Line]:
    things = words + [{"bottom": table.top, "table": table} for table in tables]
    for number, row in enumerate(cluster_objects(things, itemgetter("bottom"), SAME_ROW)):
        yield from (replace(thing["table"], row=number) for thing in row if "table" in thing)
        for segment in _segments(sorted((word for word in row if "text" in word), key=itemgetter("x0"))):
            yield _line(segment, number)


def _ruled_line(table: Table, rows: tuple[Row, ...]) -> Line:
    x0, top, x1, bottom = table.bbox
    return Line("", x0, x1, top, bottom, rows=rows)


def _figure_line(table: FigureTable) -> Line:
    return Line("", table.x0, table.x1, table.top, table.bottom, rows=table.rows, is_read=True)


def _without_overlaps(ruled: Sequence[Line], figures: Sequence[Line]) -> list[Line]:
    """The tables that stand alone; of two in one place, the ruled one if it has all rows under named columns."""
    kept = [
        table
        for table in figures
        if not any(names_columns(other.rows) and len(other.rows) >= len(table.rows) for other in _over(table, ruled))
    ]
    return kept + [table for table in ruled if not any(_over(table, kept))]


def _over(table: Line, others: Sequence[Line]) -> list[Line]:
    left, top, right, bottom = _box(table)
    return [o for o in others if o.x0 < right and o.x1 > left and o.top < bottom and o.bottom > top]


def _box(table: Line) -> Box:
    return table.x0, table.top, table.x1, table.bottom


def _segments(words: Sequence[Word]) -> Iterator[list[Word]]:
    segment: list[Word] = []
    for word in words:
        if segment and word["x0"] - segment[-1]["x1"] > SEGMENT_GAP * _size([*segment[-1:], word]):
            yield segment
            segment = []
        segment.append(word)
    if segment:
        yield segment


def _figures_apart(words: Sequence[Word]) -> Iterator[list[Word]]:
    """The segment, divided before currency signs and between figures, which may stand close in narrow columns."""
    piece: list[Word] = []
    for word in words:
        if piece and _is_figure(word) and word["x0"] - piece[-1]["x1"] > FIGURE_GAP * _size([word]):
            is_apart = word["text"] in CURRENCY or _is_figure(piece[-1])
            if is_apart and piece[-1]["text"] not in CURRENCY:
                yield piece
                piece = []
        piece.append(word)
    yield piece


def _is_figure(word: Word) -> bool:
    return word["text"] in CURRENCY or FIGURE.fullmatch(word["text"]) is not None


def _line(words: Sequence[Word], row: int) -> Line:
    text = UNMAPPED.sub("", " ".join(word["text"] for word in words))
    top, bottom = min(word["top"] for word in words), max(word["bottom"] for word in words)
    return Line(
        text.strip(), words[0]["x0"], words[-1]["x1"], top, bottom, size=_size(words), row=row, is_bold=_is_bold(words)
    )


def _size(words: Sequence[Word]) -> float:
    """The size of most letters, to half a point."""
    sizes = Counter(round(char["size"] * 2) / 2 for word in words for char in word["chars"])
    return float(sizes.most_common(1)[0][0])


def _is_bold(words: Sequence[Word]) -> bool:
    return all(BOLD.search(char["fontname"]) for word in words for char in (word["chars"][0], word["chars"][-1]))


def _inside(word: Word, box: Box) -> bool:
    x, y = (word["x0"] + word["x1"]) / 2, (word["top"] + word["bottom"]) / 2
    return bool(box[0] <= x <= box[2] and box[1] <= y <= box[3])


def _tables(page: Page) -> list[tuple[Table, tuple[Row, ...]]]:
    if len(page.edges) > MAX_EDGES:
        return []
    tables = ((table, table.extract(x_tolerance_ratio=WORD_GAP)) for table in page.find_tables())
    return [(table, _filled(table, cells)) for table, cells in tables if _is_table(cells)]


def _is_table(cells: list[list[str | None]]) -> bool:
    """Whether it has columns and rows and more cells with text than without: a frame or a chart has not."""
    filled = sum(bool(cell) for row in cells for cell in row)
    drawn = sum(cell is not None for row in cells for cell in row)
    columns = sum(any(row[n] for row in cells) for n in range(len(cells[0]))) if cells else 0
    return len(cells) > 1 and columns > 1 and 2 * filled >= drawn


def _filled(table: Table, cells: list[list[str | None]]) -> tuple[Row, ...]:
    """The cells' texts, each also in the places it spans."""
    above: list[tuple[Box | None, str]] = []
    rows: list[Row] = []
    for row, texts in zip(table.rows, cells, strict=True):
        top = row.bbox[1]
        current: list[tuple[Box | None, str]] = []
        for n, (box, text) in enumerate(zip(row.cells, texts, strict=True)):
            owner: tuple[Box | None, str] = (box, _cell(text))
            if box is None and n < len(above) and (spanning := above[n][0]) and spanning[3] > top + 1:
                owner = above[n]
            elif box is None and current and (wide := current[-1][0]) and _reaches(wide, table, n):
                owner = current[-1]
            current.append(owner)
        above = current
        rows.append(tuple(text for _, text in current))
    return tuple(rows)


def _reaches(box: Box, table: Table, column: int) -> bool:
    return bool(box[2] > table.columns[column].bbox[0] + 1)


def _cell(text: str | None) -> str:
    return " ".join(rejoin(plain_letters(UNMAPPED.sub("", text or "")), frozenset()).split())
