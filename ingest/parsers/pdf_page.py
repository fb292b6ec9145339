"""A PDF page to lines and tables in reading order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from pdfplumber.page import Page
from pdfplumber.table import Table
from pdfplumber.utils.clustering import cluster_objects

from ingest.parsers.page_layout import Line, reading_order
from ingest.tables import Row
from ingest.typography import plain_letters, rejoin

WORD_GAP = 0.15  # of the letter's size; narrower gaps are kerning
SEGMENT_GAP = 1.0  # of the letter's size; wider than the blanks of justified text
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
    tables = _tables(page)
    words = page.filter(_is_upright).extract_words(x_tolerance_ratio=WORD_GAP, return_chars=True)
    boxes = [table.bbox for table, _ in tables]
    outside = [word for word in words if not any(_inside(word, box) for box in boxes)]
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


def _lines(words: list[Word], tables: list[tuple[Table, tuple[Row, ...]]]) -> Iterator[Line]:
    things = words + [{"bottom": table.bbox[1], "table": table, "rows": rows} for table, rows in tables]
    for number, row in enumerate(cluster_objects(things, itemgetter("bottom"), SAME_ROW)):
        for thing in row:
            if "table" in thing:
                x0, top, x1, bottom = thing["table"].bbox
                yield Line("", x0, x1, top, bottom, row=number, rows=thing["rows"])
        for segment in _segments(sorted((word for word in row if "text" in word), key=itemgetter("x0"))):
            yield _line(segment, number)


def _segments(words: Sequence[Word]) -> Iterator[list[Word]]:
    segment: list[Word] = []
    for word in words:
        if segment and word["x0"] - segment[-1]["x1"] > SEGMENT_GAP * _size([*segment[-1:], word]):
            yield segment
            segment = []
        segment.append(word)
    if segment:
        yield segment


def _line(words: Sequence[Word], row: int) -> Line:
    text = UNMAPPED.sub("", " ".join(word["text"] for word in words))
    top, bottom = min(word["top"] for word in words), max(word["bottom"] for word in words)
    return Line(text.strip(), words[0]["x0"], words[-1]["x1"], top, bottom, size=_size(words), row=row)


def _size(words: Sequence[Word]) -> float:
    """The size of most letters, to half a point."""
    sizes = Counter(round(char["size"] * 2) / 2 for word in words for char in word["chars"])
    return float(sizes.most_common(1)[0][0])


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
