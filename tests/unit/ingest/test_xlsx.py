from __future__ import annotations

import io
import zipfile
from datetime import date, datetime

import pytest
from openpyxl import Workbook

from ingest.blocks import Parsed
from ingest.parsers.cell_formats import shown
from ingest.parsers.xlsx import parse_xlsx
from rag.errors import InvalidInput


def saved(workbook: Workbook) -> bytes:
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.of(block)) for block in parsed.blocks]


def test_each_sheet_is_a_section_with_its_header_found_below_titles_and_blank_rows() -> None:
    workbook = Workbook()
    workbook.active.title = "Fees 2025"
    for row in ([], ["Fees by country"], [], ["Country", "Fee"], ["Chile", 12], ["Peru", 9]):
        workbook.active.append(row)
    workbook.create_sheet("Empty")
    workbook.create_sheet("Notes").append(["Paid yearly."])

    parsed = parse_xlsx(saved(workbook))

    assert blocks(parsed) == [
        ("heading", "Fees 2025"),
        ("paragraph", "Fees by country"),
        ("table", "Country: Chile; Fee: 12\nCountry: Peru; Fee: 9"),
        ("heading", "Notes"),
        ("paragraph", "Paid yearly."),
    ]


def test_merged_cells_are_filled_and_two_header_rows_joined() -> None:
    workbook = Workbook()
    sheet = workbook.active
    for row in (["Site", "2024", None], [None, "Q1", "Q2"], ["Rome", 1, 2], [None, 3, 4]):
        sheet.append(row)
    for merged in ("A1:A2", "B1:C1", "A3:A4"):
        sheet.merge_cells(merged)

    parsed = parse_xlsx(saved(workbook))

    assert blocks(parsed)[1:] == [("table", "Site: Rome; 2024 Q1: 1; 2024 Q2: 2\nSite: Rome; 2024 Q1: 3; 2024 Q2: 4")]


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (0.125, "0.0%", "12.5%"),
        (1234.5, "#,##0.00", "1,234.50"),
        (1234.5, '#,##0.00 "EUR"', "1,234.50 EUR"),
        (5, "[$$-409]#,##0", "$5"),
        (1.5, "0.0##", "1.5"),
        (0.1 + 0.2, "General", "0.30000000000000004"),
        (1200, "General", "1200"),
        (-3, "0;[Red]-0", "-3"),
        (True, "General", "TRUE"),
        (datetime.fromisoformat("2025-03-01"), "dd/mm/yyyy", "2025-03-01"),
        (datetime.fromisoformat("2025-03-01T14:05"), "dd/mm/yyyy hh:mm", "2025-03-01 14:05:00"),
        (date(2025, 3, 1), "d mmm", "2025-03-01"),
    ],
)
def test_values_are_as_shown(value: object, number_format: str, text: str) -> None:
    assert shown(value, number_format) == text


def test_formulas_without_a_stored_result_are_told() -> None:
    workbook = Workbook()
    workbook.active.append(["Sum", "=1+1"])

    parsed = parse_xlsx(saved(workbook))

    assert parsed.warnings == ("Sheet: 1 formulas have no stored result; open and save the file",)


def test_a_cell_far_out_is_no_grid_of_millions() -> None:
    workbook = Workbook()
    workbook.active["XFD1048576"] = "far"
    workbook.active["A1"] = "near"

    assert [text for kind, text in blocks(parse_xlsx(saved(workbook))) if kind != "heading"] == ["near", "far"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504), "password"),
        (b"Name,Fee\n", "damaged"),
        (b"PK\x03\x04 cut off", "damaged"),
    ],
)
def test_what_is_no_open_workbook_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_xlsx(data)


def test_other_and_cut_archives_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "hello")
    workbook = saved(Workbook())

    for data in (stream.getvalue(), workbook[: len(workbook) // 2]):
        with pytest.raises(InvalidInput, match="damaged"):
            parse_xlsx(data)


def test_a_zip_bomb_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(30_000_000))

    with pytest.raises(InvalidInput, match="unpacks to over 28 MB"):
        parse_xlsx(stream.getvalue())
