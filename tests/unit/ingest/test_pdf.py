from __future__ import annotations

from collections.abc import Sequence

import pytest

from ingest.blocks import Parsed
from ingest.parsers.pdf import parse_pdf
from rag.errors import InvalidInput
from tests.pdf_files import Text, drawn, encrypted, pdf


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.of(block)) for block in parsed.blocks]


def paragraph(x: float, y: float, lines: Sequence[str]) -> list[Text]:
    return [(x, y - 14 * n, 10, line) for n, line in enumerate(lines)]


def test_large_letters_are_headings_and_lines_are_paragraphs() -> None:
    content = drawn(
        [
            (50, 750, 24, "Leave policy"),
            *paragraph(50, 700, ["All employees have thirty days of paid leave in a year, and the", "rest is unpaid."]),
            (50, 650, 14, "Notice"),
            *paragraph(50, 620, ["Ask your lead two weeks before the first day of your leave.", "Later is too late."]),
            *paragraph(50, 570, ["Sick days need no notice."]),
        ]
    )

    parsed = parse_pdf(pdf(content, info="/Author (HR) /CreationDate (D:20250131120000Z)"))

    assert [(block.kind, block.level, parsed.of(block)) for block in parsed.blocks] == [
        ("heading", 1, "Leave policy"),
        ("paragraph", 0, "All employees have thirty days of paid leave in a year, and the rest is unpaid."),
        ("heading", 2, "Notice"),
        ("paragraph", 0, "Ask your lead two weeks before the first day of your leave. Later is too late."),
        ("paragraph", 0, "Sick days need no notice."),
    ]
    assert parsed.facets.title == "Leave policy"
    assert parsed.facets.metadata == {"author": "HR", "created": "2025-01-31"}


def test_columns_are_read_one_after_the_other_under_what_spans_them() -> None:
    left = ["The left column begins here and", "goes on down the page until its", "last line ends it all."]
    right = ["The right column begins up here", "beside the left one, and is read", "after it to the very end."]
    wide = "This line runs over both of the columns from the left edge to the right edge of the page and beyond."

    parsed = parse_pdf(
        pdf(drawn([(50, 760, 10, wide), *paragraph(50, 700, left), *paragraph(320, 700, right), (50, 600, 10, wide)]))
    )

    assert [text for _, text in blocks(parsed)] == [wide, " ".join(left), " ".join(right), wide]


def test_labels_and_values_side_by_side_are_read_row_by_row() -> None:
    rows = [("Name:", "Ada Byron"), ("Town:", "London"), ("Born:", "1815"), ("Field:", "Engines")]
    texts = [(x, 700 - 14 * n, 10, row[c]) for n, row in enumerate(rows) for c, x in enumerate((50, 200))]

    parsed = parse_pdf(pdf(drawn(texts)))

    assert parsed.text.replace("\n\n", " ") == "Name: Ada Byron Town: London Born: 1815 Field: Engines"


def test_ruled_tables_are_tables_with_spanned_cells_filled() -> None:
    cells = [["Region", "Plan", "Fee"], ["North", "Basic", "5"], ["", "Full", "9"]]
    texts = [(60 + 100 * c, 710 - 20 * r, 10, cell) for r, row in enumerate(cells) for c, cell in enumerate(row)]
    across = [(50, 724, 350, 724), (50, 704, 350, 704), (150, 684, 350, 684), (50, 664, 350, 664)]
    down = [(x, 664, x, 724) for x in (50, 150, 250, 350)]

    parsed = parse_pdf(
        pdf(drawn([(50, 750, 10, "Fees by plan"), *texts, (50, 600, 10, "All fees in euros.")], across + down))
    )

    assert blocks(parsed) == [
        ("paragraph", "Fees by plan"),
        ("table", "Region: North; Plan: Basic; Fee: 5\nRegion: North; Plan: Full; Fee: 9"),
        ("paragraph", "All fees in euros."),
    ]
    assert parsed.blocks[1].caption == "Fees by plan"


def test_every_text_has_its_page_in_its_breadcrumb_and_running_heads_stand_once() -> None:
    pages = [
        drawn([(50, 780, 8, f"Handbook, page {n}"), *paragraph(50, 700, [f"Rule {n} is about the {word} room."])])
        for n, word in enumerate(("first", "second", "third"), 1)
    ]

    parsed = parse_pdf(pdf(*pages))

    assert blocks(parsed) == [
        ("heading", "Page 1"),
        ("paragraph", "Handbook, page 1"),
        ("paragraph", "Rule 1 is about the first room."),
        ("heading", "Page 2"),
        ("paragraph", "Rule 2 is about the second room."),
        ("heading", "Page 3"),
        ("paragraph", "Rule 3 is about the third room."),
    ]
    assert {block.level for block in parsed.blocks if block.kind == "heading"} == {7}


def test_heads_that_differ_by_more_than_the_page_number_all_stay() -> None:
    pages = [drawn([(50, 780, 8, f"Invoice {number}"), (50, 700, 10, "Pay now.")]) for number in (510, 620, 730)]

    parsed = parse_pdf(pdf(*pages))

    assert [parsed.text.count(f"Invoice {number}") for number in (510, 620, 730)] == [1, 1, 1]


def test_a_sentence_over_two_pages_stays_whole_where_it_begins() -> None:
    parsed = parse_pdf(
        pdf(
            drawn(paragraph(50, 100, ["A claim must be sent within ten work-"])),
            drawn(paragraph(50, 750, ["ing days of the event.", "Later claims are void."])),
        )
    )

    assert blocks(parsed) == [
        ("heading", "Page 1"),
        ("paragraph", "A claim must be sent within ten working days of the event. Later claims are void."),
    ]


def test_a_password_that_only_the_owner_needs_does_not_close_the_text() -> None:
    data = encrypted(drawn([(50, 700, 10, "Norm QX-81 holds.")]), user=b"", owner=b"secret")

    assert parse_pdf(data).text == "Norm QX-81 holds."


def test_a_pdf_that_needs_a_password_is_refused_with_that_reason() -> None:
    data = encrypted(drawn([(50, 700, 10, "Hidden")]), user=b"open", owner=b"secret")

    with pytest.raises(InvalidInput, match="encrypted and needs a password"):
        parse_pdf(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pdf(b"", b""), "no text on its 2 pages"),
        (b"PK\x03\x04", "not a PDF"),
        (b"%PDF-1.4\nnothing more", "damaged"),
        (pdf(b"BT /F1 10 Tf (x) Tj ET")[:60], "damaged"),
    ],
)
def test_what_holds_no_readable_text_is_refused_with_the_reason(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_pdf(data)


def test_text_up_the_margin_is_read_after_the_page_and_breaks_no_columns() -> None:
    margin = b"\nBT /F1 20 Tf 0 1 -1 0 30 300 Tm (Draft 7) Tj ET"

    parsed = parse_pdf(pdf(drawn(paragraph(60, 700, ["The only line of the page stands here."])) + margin))

    assert [text for _, text in blocks(parsed)] == ["The only line of the page stands here.", "Draft 7"]
