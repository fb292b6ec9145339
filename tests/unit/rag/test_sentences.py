from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.sentences import sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("See e.g. this. Next one.", ["See e.g. this.", "Next one."]),
        ("Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("It costs 4.50 EUR. It is v1.2.3 now.", ["It costs 4.50 EUR.", "It is v1.2.3 now."]),
        ("Wait... what is it", ["Wait...", "what is it"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("日本語です。次の文。", ["日本語です。", "次の文。"]),
        ("- first item\n- second item", ["- first item", "- second item"]),
        ("1. Open it\n2. Close it", ["1. Open it", "2. Close it"]),
        ("A wrapped\nline stays. One.\n\nA paragraph", ["A wrapped\nline stays.", "One.", "A paragraph"]),
        ("Name: x\nPort: 80", ["Name: x", "Port: 80"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_text_falls_into_sentences_items_and_rows(text: str, pieces: list[str]) -> None:
    assert [piece for _, piece in sentences(text)] == pieces


@given(st.text(alphabet='aB .!?。\n-1:")…', max_size=80))
def test_sentences_are_exact_spans_in_order_and_lose_only_white_space(text: str) -> None:
    found = list(sentences(text))

    assert all(text[start : start + len(piece)] == piece == piece.strip() for start, piece in found)
    assert "".join("".join(piece.split()) for _, piece in found) == "".join(text.split())
    assert [start for start, _ in found] == sorted({start for start, _ in found})


def test_a_long_row_of_dots_takes_no_long_time() -> None:
    assert len(list(sentences("." * 50_000 + "!" * 50_000))) == 1
