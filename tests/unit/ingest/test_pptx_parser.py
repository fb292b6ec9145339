from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import docx
import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from ingest.blocks import Parsed
from ingest.parsers.pptx import parse_pptx
from rag.errors import InvalidInput

TITLE_AND_CONTENT, BLANK = 1, 6
BOX = (Inches(1), Inches(1), Inches(4), Inches(2))


def saved(presentation: Any) -> bytes:
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def read(write: Callable[[Any], object]) -> Parsed:
    presentation = pptx.Presentation()
    write(presentation)
    return parse_pptx(saved(presentation))


def add_slide(presentation: Any, layout: int = BLANK) -> Any:
    return presentation.slides.add_slide(presentation.slide_layouts[layout])


def test_slides_stand_under_their_title_or_number_and_empty_ones_do_not() -> None:
    def write(presentation: Any) -> None:
        titled = add_slide(presentation, TITLE_AND_CONTENT)
        titled.shapes.title.text = "Plan\vfor May"
        body = titled.placeholders[1].text_frame
        body.text = "Sow"
        for level, text in ((1, "beans"), (0, "Reap")):
            paragraph = body.add_paragraph()
            paragraph.level, paragraph.text = level, text
        add_slide(presentation)
        add_slide(presentation).shapes.add_textbox(*BOX).text_frame.text = "One\nTwo"

    parsed = read(write)

    assert [(block.kind, parsed.of(block)) for block in parsed.blocks] == [
        ("heading", "Plan for May"),
        ("list", "- Sow\n  - beans\n- Reap"),
        ("heading", "Slide 3"),
        ("paragraph", "One"),
        ("paragraph", "Two"),
    ]
    assert parsed.facets.title == "Plan for May"


def test_tables_have_their_columns_names_and_merged_cells_filled() -> None:
    def write(presentation: Any) -> None:
        table = add_slide(presentation).shapes.add_table(4, 3, *BOX).table
        rows = (("Team", "Score", ""), ("", "Home", "Away"), ("Reds", "1", "2"), ("Blues", "3", ""))
        for n, row in enumerate(rows):
            for m, text in enumerate(row):
                table.cell(n, m).text = text
        table.cell(0, 0).merge(table.cell(1, 0))
        table.cell(0, 1).merge(table.cell(0, 2))
        table.cell(3, 1).merge(table.cell(3, 2))

    assert read(write).text == (
        "Slide 1\n\nTeam: Reds; Score Home: 1; Score Away: 2\nTeam: Blues; Score Home: 3; Score Away: 3"
    )


def test_groups_charts_and_notes_are_read() -> None:
    def write(presentation: Any) -> None:
        slide = add_slide(presentation)
        group = slide.shapes.add_group_shape().shapes.add_group_shape()
        group.shapes.add_textbox(*BOX).text_frame.text = "Grouped"
        data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        data.categories = ["East", "West"]
        data.add_series("2025", (1.5, 2))
        data.add_series("2026", (3, None))
        slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *BOX, data)
        slide.notes_slide.notes_text_frame.text = "Say hello."

    assert read(write).text == (
        "Slide 1\n\nGrouped\n\nEast; 2025: 1.5; 2026: 3.0\nWest; 2025: 2.0\n\nNotes: Say hello."
    )


def test_the_documents_properties_are_its_facets() -> None:
    def write(presentation: Any) -> None:
        presentation.core_properties.title = "Review"
        presentation.core_properties.author = "Ann"
        presentation.core_properties.subject = "Q3"
        add_slide(presentation).shapes.add_textbox(*BOX).text_frame.text = "x"

    facets = read(write).facets

    assert facets.title == "Review"
    assert (facets.metadata["author"], facets.metadata["subject"]) == ("Ann", "Q3")


def word_document() -> bytes:
    return saved(docx.Document())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"slides", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "encrypted or in a format before 2007"),
        (word_document(), "no PowerPoint presentation"),
        (saved(pptx.Presentation()), "no text"),
    ],
)
def test_what_is_no_readable_presentation_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_pptx(data)
