from __future__ import annotations

import pytest

from rag.telling import counted, shortened


def test_a_count_has_its_noun() -> None:
    assert [counted(n, "document") for n in range(3)] == ["0 documents", "1 document", "2 documents"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one two", "one two"),
        ("one\n two\tthree", "one two…"),
        ("one two, four", "one two…"),
        ("one two. three", "one two.…"),
        ("abcdefghijkl", "abcdefgh…"),
        ("exactly 9", "exactly 9"),
    ],
)
def test_a_text_that_is_too_long_ends_at_a_word_with_an_ellipsis(text: str, told: str) -> None:
    assert shortened(text, 9) == told
