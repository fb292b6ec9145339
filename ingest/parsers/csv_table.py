"""CSV and TSV to a table: delimiter and encoding found, every cell kept."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from ingest.blocks import Parsed, TextBuilder
from ingest.grids import add_grid
from ingest.parsers.encodings import decode_text
from rag.errors import InvalidInput
from rag.values import Facets

DELIMITERS = (",", ";", "\t", "|")
NO_DELIMITER = "\x1f"  # the unit separator, which text has not
PROBED_ROWS = 100
SHOWN_ROWS = 5
STATED = re.compile(r'"?sep=(.)"?\n', re.IGNORECASE)  # what spreadsheet programs write for themselves
UNBALANCED = "a quotation mark is never closed; all of them were read as ordinary characters"


def parse_csv(data: bytes) -> Parsed:
    """The table in *data*, one row a line; rows of another width than the header's are kept and named in a warning."""
    csv.field_size_limit(len(data) + 1)  # a cell may be as long as it is; memory is limited elsewhere
    text = decode_text(data)
    stated = STATED.match(text)
    text = text[stated.end() :] if stated else text
    delimiter = stated[1] if stated else _delimiter(text)
    rows, warnings = _rows(text, delimiter)
    warnings += _ragged(rows)
    document = TextBuilder()
    add_grid(document, rows)
    return document.parsed(Facets(), tuple(warnings))


def _rows(text: str, delimiter: str) -> tuple[list[list[str]], list[str]]:
    try:
        return list(csv.reader(_lines(text), delimiter=delimiter, strict=True)), []
    except csv.Error as exc:
        unclosed = "end of data" in str(exc)
    try:
        if unclosed:
            return list(csv.reader(_lines(text), delimiter=delimiter, quoting=csv.QUOTE_NONE)), [UNBALANCED]
        return list(csv.reader(_lines(text), delimiter=delimiter)), []
    except csv.Error as exc:
        raise InvalidInput(f"This CSV file cannot be read ({exc}); export it again.") from exc


def _lines(text: str) -> Iterator[str]:
    return iter(io.StringIO(text))


def _delimiter(text: str) -> str:
    """The delimiter that gives the most rows the same number of cells, if that is more than one."""
    best = max(DELIMITERS, key=lambda delimiter: _agreement(text, delimiter))
    return best if _agreement(text, best)[0] > 0 else NO_DELIMITER


def _agreement(text: str, delimiter: str) -> tuple[float, int]:
    try:
        rows = list(islice(csv.reader(_lines(text), delimiter=delimiter), PROBED_ROWS))
    except csv.Error:
        return 0, 0
    widths = Counter(len(row) for row in rows if row)
    if not widths:
        return 0, 0
    width, count = widths.most_common(1)[0]
    return (count / widths.total(), width) if width > 1 else (0, 0)


def _ragged(rows: list[list[str]]) -> list[str]:
    """A warning if rows differ in width; the usual width is the most frequent one."""
    widths = Counter(len(row) for row in rows if row)
    usual = max(widths, key=lambda width: (widths[width], width), default=0)
    ragged = [n for n, row in enumerate(rows, 1) if row and len(row) != usual]
    if not ragged:
        return []
    shown = ", ".join(map(str, ragged[:SHOWN_ROWS])) + (", ..." if len(ragged) > SHOWN_ROWS else "")
    return [f"{len(ragged)} rows do not have {usual} cells like the others (row {shown}); they are kept as they are"]
