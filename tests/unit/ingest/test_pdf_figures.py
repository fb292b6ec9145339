"""Figures that stand in columns without lines, as financial reports print them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ingest.parsers.pdf import parse_pdf
from tests.pdf_files import Text, drawn, pdf

COLUMNS = (300.0, 380.0, 460.0, 540.0)
DIGIT = 0.556  # of the letter's size in Helvetica; marks are about half as wide


def right(x: float, y: float, text: str, size: float = 10) -> Text:
    """The text with its right edge about at *x*."""
    width = sum(DIGIT if char.isalnum() or char == "$" else DIGIT / 2 for char in text)
    return x - size * width, y, size, text


def middle(x: float, y: float, text: str) -> Text:
    place, _, size, _ = right(x, y, text)
    return place + (x - place) / 2, y, size, text


def row(y: float, label: str, *figures: str, indent: float = 0) -> list[Text]:
    named = [(50 + indent, y, 10.0, label)] if label else []
    return named + [right(x, y, figure) for x, figure in zip(COLUMNS, figures, strict=False) if figure]


def tables(*texts: Sequence[Text]) -> list[str]:
    parsed = parse_pdf(pdf(drawn([text for part in texts for text in part])))
    return [parsed.of(block) for block in parsed.blocks if block.kind == "table"]


def words(*texts: Sequence[Text]) -> set[str]:
    parsed = parse_pdf(pdf(drawn([text for part in texts for text in part])))
    return set(parsed.text.replace(";", " ").replace(":", " ").split())


TITLE = [(50.0, 760.0, 10.0, "The harbour company earned this in its first two years.")]


def test_each_figure_stands_beside_the_words_over_its_column() -> None:
    names = [right(300, 740, "June 1,"), right(380, 740, "June 1,"), right(300, 728, "2024"), right(380, 728, "2023")]

    found = tables(
        TITLE,
        names,
        row(710, "Berths", "1,200", "1,100"),
        row(697, "Cranes", "(30)", "45"),
        row(684, "Total", "1,170", "1,145"),
    )

    assert found == [
        "Berths; June 1, 2024: 1,200; June 1, 2023: 1,100\n"
        "Cranes; June 1, 2024: (30); June 1, 2023: 45\n"
        "Total; June 1, 2024: 1,170; June 1, 2023: 1,145"
    ]


def test_a_name_over_the_middle_of_several_columns_is_each_ones() -> None:
    names = [middle(325, 740, "Half year"), middle(485, 740, "Full year")]
    years = [right(x, 728, year) for x, year in zip(COLUMNS, ("2024", "2023", "2024", "2023"), strict=True)]
    body = [row(710 - 13 * n, f"Pier {name}", *["1,234,567"] * 4) for n, name in enumerate(("East", "West", "North"))]

    [found] = tables(TITLE, names, years, *body)

    assert found.split("\n")[0] == (
        "Pier East; Half year 2024: 1,234,567; Half year 2023: 1,234,567; "
        "Full year 2024: 1,234,567; Full year 2023: 1,234,567"
    )


def test_labels_stand_under_what_they_are_indented_under_and_wrapped_ones_are_whole() -> None:
    years = [right(300, 728, "2024"), right(380, 728, "2023")]

    [found] = tables(
        TITLE,
        years,
        row(710, "Fees:"),
        row(697, "Berths", "12", "11", indent=10),
        row(684, "Total fees", "42", "41", indent=10),
        row(671, "Cost of dredging and of mainte-"),
        row(658, "nance works", "20", "21"),
        row(645, "Profit", "22", "20"),
    )

    assert found.split("\n") == [
        "Fees: Berths; 2024: 12; 2023: 11",
        "Fees: Total fees; 2024: 42; 2023: 41",
        "Cost of dredging and of maintenance works; 2024: 20; 2023: 21",
        "Profit; 2024: 22; 2023: 20",
    ]


def test_currency_signs_in_columns_of_their_own_belong_to_their_figures() -> None:
    years = [right(300, 728, "2024"), right(380, 728, "2023")]
    signs = [(255.0, 710.0, 10.0, "$"), (335.0, 710.0, 10.0, "$")]

    [found] = tables(
        TITLE, years, signs, row(710, "Berths", "12", "11"), row(697, "Cranes", "30", "31"), row(684, "Tugs", "5", "6")
    )

    assert found.split("\n")[0] == "Berths; 2024: $12; 2023: $11"


def test_figures_without_names_stay_row_by_row_and_are_no_names_themselves() -> None:
    [found] = tables(
        TITLE,
        row(710, "Berths", "12", "11"),
        row(697, "Cranes", "30", "31"),
        row(684, "Tugs", "", "6"),
        row(671, "All", "9", "9"),
    )

    assert found == "Berths; 12; 11\nCranes; 30; 31\nTugs; 6\nAll; 9; 9"


@pytest.mark.parametrize(
    "rows",
    [
        [row(710, "Berths", "12", "11"), row(697, "Cranes", "30", "31")],  # too few
        [row(710 - 13 * n, f"Part {n} of the rules ........", "12") for n in range(6)],  # contents
        [row(710 - 13 * n, "A label", "words here", "11") for n in range(6)],  # values that are no figures
        [row(710 - 13 * n, "A label that runs on over the place of the first column", "12", "11") for n in range(6)],
    ],
)
def test_what_is_no_table_of_figures_stays_text(rows: list[list[Text]]) -> None:
    assert tables(TITLE, *rows) == []


def test_no_word_is_lost_around_a_table() -> None:
    years = [(50.0, 728.0, 10.0, "(in thousands)"), right(300, 728, "2024"), right(380, 728, "2023")]
    body = [row(710 - 13 * n, f"Pier{n}", f"{n}1", f"{n}2") for n in range(1, 5)]
    after = [(50.0, 600.0, 10.0, "See the notes.")]

    found = words(TITLE, years, *body, after)

    assert found >= {"harbour", "(in", "thousands)", "2024", "2023", "Pier1", "Pier4", "11", "42", "notes."}


def test_a_drawn_table_whose_first_row_is_values_takes_none_of_them_for_names() -> None:
    cells = [["Berths", "1,200", "1,100"], ["Cranes", "30", "45"]]
    texts = [(60 + 100 * c, 710 - 20 * r, 10.0, cell) for r, row in enumerate(cells) for c, cell in enumerate(row)]
    across = [(50.0, y, 350.0, y) for y in (724.0, 704.0, 684.0)]
    down = [(x, 684.0, x, 724.0) for x in (50.0, 150.0, 250.0, 350.0)]

    parsed = parse_pdf(pdf(drawn([*TITLE, *texts], across + down)))

    assert [parsed.of(block) for block in parsed.blocks if block.kind == "table"] == [
        "Berths; 1,200; 1,100\nCranes; 30; 45"
    ]
