"""Headings of print: larger letters, else bold ones on a line of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ingest.parsers.pdf import parse_pdf
from tests.pdf_files import Text, drawn, pdf

BODY = [
    "The harbour takes ships of every size at any hour of the day and of the night, and its",
    "pilots board them at the outer buoy unless the sea is too rough for that to be safe.",
]


def body(y: float) -> list[Text]:
    return [(50, y - 14 * n, 10, line) for n, line in enumerate(BODY)]


def headings(texts: Sequence[Text], bold: Sequence[Text]) -> list[tuple[int, str]]:
    parsed = parse_pdf(pdf(drawn(texts) + b"\n" + drawn(bold).replace(b"/F1", b"/F2")))
    return [(block.level, parsed.of(block)) for block in parsed.blocks if block.kind == "heading"]


def test_bold_lines_of_their_own_are_headings_below_those_of_larger_letters() -> None:
    texts = [(50.0, 770.0, 20.0, "Harbour rules"), *body(700), *body(620), *body(540)]
    bold: list[Text] = [(50, 725, 10, "Note 1 - Ships"), (50, 645, 10, "Pilots"), (50, 565, 10, "Note 2 - Fees")]

    assert headings(texts, bold) == [(1, "Harbour rules"), (2, "Note 1 - Ships"), (3, "Pilots"), (2, "Note 2 - Fees")]


@pytest.mark.parametrize(
    "bold",
    [
        [(50.0, 672.0, 10.0, "Bold words within a paragraph")],  # right under the line before
        [(50.0, 640.0, 10.0, "A bold sentence is no heading.")],
        [(50.0, 640.0, 10.0, "A label:")],
        [(50.0, 640.0, 10.0, "Total 1,234")],
        [(330.0, 640.0, 10.0, "Half year")],  # over figures
        [(50.0, 640.0, 10.0, "goes on in small letters")],
        [(50.0, 640.0 - 12 * n, 10.0, line) for n, line in enumerate(("A bold paragraph of", "two such lines"))],
    ],
)
def test_other_bold_lines_are_text(bold: list[Text]) -> None:
    texts = [*body(700)[:1], (50.0, 686.0, 10.0, "the pilots board them at the outer buoy of"), *body(560), *body(500)]

    assert headings(texts, bold) == []


def test_a_stack_of_bold_lines_is_headings_and_what_is_none_between_them_is_text() -> None:
    bold: list[Text] = [(50, 725, 10, "PART I Fees"), (50, 713, 10, "Berths"), (50, 701, 10, "(in euros)")]

    assert headings([*body(660), *body(600), *body(540)], bold) == [(1, "PART I Fees"), (2, "Berths")]


def test_a_number_is_no_title() -> None:
    content = drawn([(50, 770, 20, "Harbour rules"), *body(700)])

    assert parse_pdf(pdf(content, info="/Title (0000320193-22-000070)")).facets.title == "Harbour rules"


def test_where_much_is_bold_it_says_nothing() -> None:
    bold: list[Text] = [(50, 740 - 40 * n, 10, f"A label of the form {n}x") for n in range(10)]
    texts: list[Text] = [(50, 725 - 40 * n, 10, "A value of the form.") for n in range(10)]

    assert headings(texts, bold) == []


def test_bold_headings_alone_give_no_title() -> None:
    content = drawn([*body(700), *body(620)]) + b"\nBT /F2 10 Tf 50 725 Td (Abstract) Tj ET"

    assert parse_pdf(pdf(content)).facets.title == ""
