from __future__ import annotations

import pytest

from ingest.blocks import Parsed
from ingest.limits import Limits
from ingest.parsers.csv_table import parse_csv
from ingest.splitter import split
from tests.unit.ingest.conftest import count


def rows(parsed: Parsed) -> list[tuple[str, ...]]:
    return [row for block in parsed.blocks for row in block.rows]


def test_a_byte_order_mark_before_a_quoted_header_is_no_part_of_it() -> None:
    parsed = parse_csv('\ufeff"Name, first",Paid\r\n"Ash, B.",7\r\n'.encode())

    assert rows(parsed) == [("Name, first: Ash, B.", "Paid: 7")]


def test_quoted_line_ends_delimiters_and_doubled_quotes_stay_in_their_cell() -> None:
    parsed = parse_csv(b'sep=;\r\nno;text;n\r\n1;"first\nsecond; still";3\r\n2;"he said ""no""";4\r\n3;tail\r\n')

    assert rows(parsed) == [
        ("no: 1", "text: first second; still", "n: 3"),
        ("no: 2", 'text: he said "no"', "n: 4"),
        ("no: 3", "text: tail"),
    ]
    assert parsed.warnings == ("1 rows do not have 3 cells like the others (row 4); they are kept as they are",)


def test_a_longer_row_keeps_its_extra_cells() -> None:
    parsed = parse_csv(b"a,b\n1,2\n3,4,5\n")

    assert rows(parsed) == [("a: 1", "b: 2"), ("a: 3", "b: 4", "5")]
    assert len(parsed.warnings) == 1


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_delimiter_and_encoding_are_found(delimiter: str, encoding: str) -> None:
    source = "\n".join(delimiter.join(row) for row in [("city", "name"), ("Köln", "Jürgen"), ("Zürich", "André")])

    assert rows(parse_csv(source.encode(encoding))) == [
        ("city: Köln", "name: Jürgen"),
        ("city: Zürich", "name: André"),
    ]


def test_decimal_commas_are_no_delimiters() -> None:
    assert rows(parse_csv(b"item;price\nbolt;1,50\nnut;0,20\n")) == [
        ("item: bolt", "price: 1,50"),
        ("item: nut", "price: 0,20"),
    ]


def test_one_column_with_commas_here_and_there_stays_one_column() -> None:
    assert rows(parse_csv(b"motto\nslow, steady\nfast\nbold\n")) == [
        ("motto: slow, steady",),
        ("motto: fast",),
        ("motto: bold",),
    ]


def test_a_title_above_the_header_names_the_table() -> None:
    parsed = parse_csv(b"Cups,,\nTeam,Town,Won\nBlues,STL,1\n")

    assert [block.kind for block in parsed.blocks] == ["paragraph", "table"]
    assert parsed.blocks[1].caption == "Cups"
    assert rows(parsed) == [("Team: Blues", "Town: STL", "Won: 1")]


def test_two_header_rows_are_joined() -> None:
    parsed = parse_csv(b"Group,Results,\n,Accuracy,Time\nBlind,34 %,12 s\n")

    assert rows(parsed) == [("Group: Blind", "Results Accuracy: 34 %", "Results Time: 12 s")]


def test_a_quotation_mark_that_is_never_closed_swallows_nothing() -> None:
    parsed = parse_csv(b'size,name\n"5,pipe\n6,hose\n')

    assert rows(parsed) == [('size: "5', "name: pipe"), ("size: 6", "name: hose")]
    assert parsed.warnings == ("a quotation mark is never closed; all of them were read as ordinary characters",)


def test_long_rows_are_cut_between_cells() -> None:
    parsed = parse_csv(b'part,colours,price\nRope,"black, white, grey",5\nClip,"x=1, y: 2",7\n')

    texts = [chunk.text for chunk in split(parsed, count_tokens=count, limits=Limits(max_tokens=16))]

    assert sum("black, white, grey" in text for text in texts) == 1
    assert sum("x=1, y: 2" in text for text in texts) == 1
