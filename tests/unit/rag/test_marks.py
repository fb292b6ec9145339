from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.marks import MARK, KnownMarks, literal, shown

SOURCES = (1, 2, 3)
ANSWERS = st.lists(
    st.sampled_from(
        [
            "[1]",
            "[2]",
            "[9]",
            "[",
            "]",
            "【2】",
            "［9］",
            "【",
            "】",
            "1",
            "9",
            ", ",
            ",",
            " ",
            "\n",
            "days",
            "x",
            ".",
            "=",
            "(",
            "[1, 2]",
        ]
    )
    | st.text(max_size=4),
    max_size=12,
).map("".join)


def in_pieces(text: str, cuts: list[int], known: tuple[int, ...] = SOURCES) -> str:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    marks = KnownMarks(known)
    return "".join(marks.feed(text[a:b]) for a, b in itertools.pairwise(edges)) + marks.rest()


def test_a_mark_in_pieces_is_one_mark_and_other_brackets_pass() -> None:
    tokens = ["Fee is 12 ", "[", "2", "]", " and [", "9", "]", ". a [not a mark", "] end"]
    marks = KnownMarks(SOURCES)

    passed = [marks.feed(token) for token in tokens]

    assert passed == ["Fee is 12", "", "", " [2]", " and", "", "", ". a [not a mark", "] end"]
    assert marks.rest() == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("x [3], y [1], z [2], w [7]", "x [3], y [1], z [2], w"),
        ("five days[7].", "five days[ 7 ]."),
        ("five days[2].", "five days[2]."),
        ("kept [9][8]. More", "kept. More"),
        ("kept [9] here", "kept here"),
        ("[9] says so", " says so"),
        ("kept [1, 2].", "kept [1][2]."),
        ("kept [1,9].", "kept [1]."),
        ("kept [8, 9].", "kept."),
        ("x = [1, 2]", "x = [1, 2]"),
        ("call([1, 2])", "call([1, 2])"),
        ("said ([1, 2])", "said ([1][2])"),
        ("kept [01]", "kept [1]"),
        ("保留五年【2】。", "保留五年[2]。"),
        ("保留五年【9】。", "保留五年。"),
        ("kept ［1, 9］.", "kept [1]."),
        ("【注意】 and 【2024】", "【注意】 and 【2024】"),
        ("in [2024], [x], [1-3] and [ 9 ]", "in [2024], [x], [1-3] and [ 9 ]"),
        ("kept [", "kept ["),
        ("kept [1", "kept [1"),
        ("kept. \n", "kept."),
        ("kept.\n\n[9]\n\nmore", "kept.\n\nmore"),
    ],
)
def test_an_answer_has_marks_of_its_sources_only(written: str, expected: str) -> None:
    assert shown(written, SOURCES) == expected


@pytest.mark.parametrize("written", ["[[9]8]", "[8[9]]", "[8 [9]]", "[ [9]8]", "[8, [9]9]", "[[9][8]7]", "a[[9] 8]"])
def test_taking_a_mark_out_makes_no_other(written: str) -> None:
    assert MARK.findall(shown(written, SOURCES)) == []


@given(ANSWERS, st.lists(st.integers(0, 60), max_size=8))
def test_every_way_of_cutting_an_answer_shows_the_same(text: str, cuts: list[int]) -> None:
    assert in_pieces(text, cuts) == shown(text, SOURCES)
    assert in_pieces(text, list(range(len(text)))) == shown(text, SOURCES)


@given(ANSWERS)
def test_a_shown_mark_always_has_a_source(text: str) -> None:
    assert {int(n) for n in MARK.findall(shown(text, SOURCES))} <= set(SOURCES)


@given(ANSWERS)
def test_only_marks_and_blanks_are_lost(text: str) -> None:
    def letters(answer: str) -> str:
        return re.sub(r"[\s\d\[\]【】［］,]", "", answer)

    assert letters(shown(text, SOURCES)) == letters(text)


@given(ANSWERS)
def test_what_is_shown_is_shown_again_unchanged(text: str) -> None:
    once = shown(text, SOURCES)

    assert shown(once, SOURCES) == once


@given(ANSWERS)
def test_the_text_of_a_source_cites_nothing(text: str) -> None:
    quoted = literal(text)

    assert MARK.findall(quoted) == []
    assert shown(quoted, SOURCES) == quoted.rstrip()
    assert quoted.replace(" ", "") == text.replace(" ", "")


def test_a_long_row_of_blanks_takes_no_time() -> None:
    assert shown(" " * 200_000 + "x" + "[" * 50_000, SOURCES) == " " * 200_000 + "x" + "[" * 50_000
