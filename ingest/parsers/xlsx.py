"""Excel workbooks to blocks: a heading and tables for each sheet, values as they are shown."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openpyxl import load_workbook
from openpyxl.utils.cell import range_boundaries
from openpyxl.utils.exceptions import InvalidFileException

from ingest.blocks import Parsed, TextBuilder
from ingest.grids import add_grid
from ingest.parsers.archives import open_archive
from ingest.parsers.cell_formats import shown
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

MAX_CELLS = 5_000_000
MAX_MERGES = 100_000
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the container of encrypted workbooks and of those before 2007
MERGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
UNCOMPUTED = re.compile(rb"</(?:\w+:)?f>\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</(?:\w+:)?c>")
CHUNK_BYTES = 1024 * 1024
OVERLAP_BYTES = 200  # longer than what the patterns match
# what openpyxl lets through for damaged parts, seen on cut and altered files; SyntaxError is XML's ParseError
DAMAGE = (InvalidFileException, KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError, OSError)

Merge = tuple[int, int, int, int]  # first column, first row, last column, last row


@dataclass(slots=True)
class _Sheet:
    """What a read-only worksheet does not tell about itself."""

    merges: list[Merge] = field(default_factory=list)
    uncomputed: int = 0


def parse_xlsx(data: bytes) -> Parsed:
    """The sheets of a workbook in order; formulas by the results stored with them, merged cells filled.

    Raises InvalidInput for a file that is encrypted, damaged, too large or no workbook.
    """
    if data.startswith(OLE):
        raise InvalidInput(
            "This workbook is encrypted with a password, or in the format before Excel 2007; "
            "save it as .xlsx without a password."
        )
    archive = open_archive(data)
    try:
        return _read(data, archive)
    except DAMAGE as exc:
        raise InvalidInput(f"This Excel file is damaged or no workbook ({exc}); save it again as .xlsx.") from exc


def _read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    workbook = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    document = TextBuilder()
    warnings: list[str] = []
    cells = _CellCount()
    for sheet in workbook.worksheets:
        about = _scan(archive, sheet._worksheet_path)  # type: ignore[attr-defined]  # of read-only sheets
        rows = list(cells.rows(sheet))
        _fill(rows, about.merges)
        if any(any(row) for row in rows):
            document.add("heading", sheet.title, level=1)
            add_grid(document, rows)
        if about.uncomputed:
            warnings.append(f"{sheet.title}: {about.uncomputed} formulas have no stored result; open and save the file")
    return document.parsed(_facets(workbook.properties), tuple(warnings))


def _facets(properties: Any) -> Facets:
    named = (("author", properties.creator), ("subject", properties.subject))
    metadata: dict[str, Scalar] = {key: value for key, value in named if value and value != "openpyxl"}
    if properties.created:
        metadata["created"] = properties.created.isoformat()
    return Facets(title=" ".join((properties.title or "").split()), metadata=metadata)


class _CellCount:
    """Reads sheets up to the limit of cells of a workbook."""

    def __init__(self) -> None:
        self._cells = 0

    def rows(self, sheet: Any) -> Iterator[list[str]]:
        sheet.reset_dimensions()  # those declared are often wrong, and each row would be padded to them
        for row in sheet.iter_rows():
            self._cells += len(row) + 1
            if self._cells > MAX_CELLS:
                raise InvalidInput(f"This workbook has over {MAX_CELLS} cells; split it.")
            yield [shown(cell.value, cell.number_format) if cell.value is not None else "" for cell in row]


def _scan(archive: zipfile.ZipFile, path: str) -> _Sheet:
    """What the sheet's XML says beside its cells, read in chunks."""
    sheet = _Sheet()
    tail = b""
    with archive.open(path.lstrip("/")) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            text = tail + chunk
            end = 0
            for match in MERGE.finditer(text):
                sheet.merges.append(_bounds(match[1].decode()))
                end = match.end()
            for match in UNCOMPUTED.finditer(text):
                sheet.uncomputed += 1
                end = max(end, match.end())
            if len(sheet.merges) > MAX_MERGES:
                raise InvalidInput(f"This workbook has over {MAX_MERGES} merged cells in a sheet; it is not read.")
            tail = text[max(end, len(text) - OVERLAP_BYTES) :]
    return sheet


def _bounds(reference: str) -> Merge:
    left, top, right, bottom = range_boundaries(reference)
    return int(left or 1), int(top or 1), int(right or 1), int(bottom or 1)


def _fill(rows: list[list[str]], merges: list[Merge]) -> None:
    """Put each merged value in every cell it covers; a lone value across a row is a title and stays as it is."""
    width = max(map(len, rows), default=0)
    work = 0
    for left, top, right, bottom in merges:
        first = rows[top - 1] if top <= len(rows) else []
        value = first[left - 1] if left <= len(first) else ""
        if not value or (top == bottom and sum(map(bool, first)) == 1):
            continue
        right, bottom = min(right, width), min(bottom, len(rows))
        work += (right - left + 1) * (bottom - top + 1)
        if work > MAX_CELLS:
            raise InvalidInput(f"This workbook's merged cells cover over {MAX_CELLS} cells; it is not read.")
        for row in rows[top - 1 : bottom]:
            row.extend([""] * (right - len(row)))
            row[left - 1 : right] = [cell or value for cell in row[left - 1 : right]]
