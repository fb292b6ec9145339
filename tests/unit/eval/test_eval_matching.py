"""Whether a text holds a gold passage."""

from __future__ import annotations

import pytest

from eval.matching import contains, overlaps

ROWS = "Code: ERR-4031; Meaning: Quota close\nCode: ERR-4032; Meaning: Quota exceeded"


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("Set `retry_limit` to **five**.", "set retry_limit to five"),
        ("The limit\n  is   ten.", "the limit is ten"),
        ("\uff26ull width \ufb01le", "full width file"),
        (ROWS, "ERR-4032 | Quota exceeded"),
        ("| ERR-4032 | Quota exceeded | wait |", "ERR-4032 | Quota exceeded"),
    ],
)
def test_marks_space_case_width_and_table_layout_do_not_matter(text: str, passage: str) -> None:
    assert contains(text, passage)


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        (ROWS, "Quota exceeded | ERR-4032"),
        (ROWS, "ERR-4031 | Quota exceeded"),
        ("It lasts 15 days.", "5 days"),
        (ROWS, "ERR-403"),
        ("anything", "|"),
    ],
)
def test_order_row_and_whole_words_matter(text: str, passage: str) -> None:
    assert not contains(text, passage)


def test_a_passage_is_found_within_chinese_text() -> None:
    assert contains("每个租户的限额是十个请求。", "限额是十个")


def test_a_quote_overlaps_when_it_holds_the_passage_or_stands_in_it() -> None:
    assert overlaps("The limit is ten requests a minute.", "limit is ten")
    assert overlaps("ten requests", "The limit is ten requests a minute")
    assert not overlaps("The limit is nine.", "limit is ten")
