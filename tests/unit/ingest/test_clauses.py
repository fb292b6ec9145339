from __future__ import annotations

import pytest

from ingest.blocks import Parsed
from ingest.clauses import with_clauses
from ingest.parsers.markdown import parse_markdown
from ingest.parsers.text import parse_text


def outline(parsed: Parsed) -> list[tuple[str, str]]:
    """Each block that is no heading with the headings it stands under."""
    path: dict[int, str] = {}
    found = []
    for block in parsed.blocks:
        if block.kind == "heading":
            path = {level: name for level, name in path.items() if level < block.level} | {
                block.level: parsed.of(block)
            }
        else:
            found.append((" > ".join(path.values()), parsed.of(block)))
    return found


def test_a_numbered_paragraph_and_what_follows_it_stand_under_their_clause() -> None:
    parsed = parse_markdown(
        "# Code\n\n## 4 Gifts\n\nIntro.\n\n**4.1** One.\n\nMore.\n\n**4.1.1** Deep.\n\n"
        "**4.2** Two:\n\n- a\n\n## 5 End\n\nOut.\n"
    )

    assert outline(with_clauses(parsed)) == [
        ("Code > 4 Gifts", "Intro."),
        ("Code > 4 Gifts > 4.1", "One."),
        ("Code > 4 Gifts > 4.1", "More."),
        ("Code > 4 Gifts > 4.1 > 4.1.1", "Deep."),
        ("Code > 4 Gifts > 4.2", "Two:"),
        ("Code > 4 Gifts > 4.2", "- a"),
        ("Code > 5 End", "Out."),
    ]


def test_articles_and_paragraph_signs_are_clauses_and_a_short_title_goes_with_the_number() -> None:
    parsed = parse_text(
        "THE ACT\n\nArticle 5\n\nText.\n\nArticle 6 Right of access\n\nAll may.\n\n§ 12 It is so.\n\n§ 13 Not so.\n"
    )

    assert outline(with_clauses(parsed)) == [
        ("THE ACT > Article 5", "Text."),
        ("THE ACT > Article 6 Right of access", "All may."),
        ("THE ACT > § 12", "It is so."),
        ("THE ACT > § 13", "Not so."),
    ]


def test_clauses_in_brackets_nest_and_know_the_words_that_introduce_them() -> None:
    parsed = parse_text(
        "TERMS\n\n4. Payment\n\n4.1 The Customer shall:\n(a) pay as in\n4.2 below;\n(b) do this:\n(i) one; and\n"
        "(ii) two;\n(c) rest.\n\n4.2 End.\n"
    )

    found = with_clauses(parsed)

    assert outline(found) == [
        ("TERMS > 4. Payment > 4.1", "The Customer shall:"),
        ("TERMS > 4. Payment > 4.1 > (a)", "pay as in\n4.2 below;"),
        ("TERMS > 4. Payment > 4.1 > (b)", "do this:"),
        ("TERMS > 4. Payment > 4.1 > (b) > (i)", "one; and"),
        ("TERMS > 4. Payment > 4.1 > (b) > (ii)", "two;"),
        ("TERMS > 4. Payment > 4.1 > (c)", "rest."),
        ("TERMS > 4. Payment > 4.2", "End."),
    ]
    captions = [block.caption for block in found.blocks if block.kind == "paragraph"]
    assert captions == [
        "",
        "The Customer shall:",
        "The Customer shall:",
        "do this:",
        "do this:",
        "The Customer shall:",
        "",
    ]


def test_i_after_h_is_a_letter() -> None:
    parsed = parse_text("\n\n".join(f"({letter}) item;" for letter in "abcdefghij"))

    levels = {block.level for block in with_clauses(parsed).blocks if block.kind == "heading"}

    assert len(levels) == 1


@pytest.mark.parametrize(
    "source",
    [
        "Sales rose.\n\n3.2 million people came.\n",
        "As noted.\n\n(a) lone letter is no list\n",
        "Do this.\n\n1. Open the valve.\n\n2. Close the valve.\n",
        "It began.\n\nArticle 5 of the law was read aloud.\n",
        "Dates.\n\n12.05.2024 it rained.\n\n13.05.2024 it did not.\n",
    ],
)
def test_numbers_that_begin_prose_are_no_clauses(source: str) -> None:
    parsed = parse_text(source)

    assert with_clauses(parsed) == parsed


def test_no_word_is_lost() -> None:
    parsed = parse_text("1.1 One\ntwo.\n1.2 three;\n(a) four\n\n(b) five:\n\nsix")

    assert with_clauses(parsed).text.split() == parsed.text.split()
