from __future__ import annotations

from uuid import UUID

import pytest

from rag.retrieval.repeats import repeats
from rag.values import Chunk, ChunkId, DocumentId

REFUNDS = (
    "Refunds are paid to the card that the order was paid with. A refund takes five working days once the parcel"
    " has reached our warehouse in Leiden, and ten during the sales in January and July."
)


def chunk(text: str, *, title: str = "", breadcrumb: tuple[str, ...] = ()) -> Chunk:
    ids = (ChunkId(UUID(int=1)), DocumentId(UUID(int=2)))
    return Chunk(*ids, "a.md", title, breadcrumb, "prose", text, text, 0, len(text), 0, len(text))


@pytest.mark.parametrize(
    "again",
    [
        REFUNDS.upper(),
        REFUNDS.replace(" ", "\n  "),
        REFUNDS.replace("five", "six"),
        REFUNDS.replace("Leiden", "Breda"),
        REFUNDS + " Ask us.",
    ],
    ids=["other case", "other blanks", "another number", "another town", "a sentence more"],
)
def test_what_nearly_says_the_same_is_a_repeat(again: str) -> None:
    assert repeats([chunk(REFUNDS), chunk(again)], "how are orders paid back?") == [False, True]


def test_another_text_on_the_same_matter_is_none() -> None:
    other = "Refunds are paid to the card that the order was paid with. Vouchers are paid back as vouchers, at once."

    assert repeats([chunk(REFUNDS), chunk(other)], "how are orders paid back?") == [False, False]


def test_what_the_question_names_and_the_earlier_one_lacks_makes_it_none() -> None:
    texts = [chunk(REFUNDS), chunk(REFUNDS.replace("Leiden", "Breda"))]

    assert repeats(texts, "how long after a parcel reached Breda?") == [False, False]
    assert repeats(texts, "how long after a parcel reached Leiden?") == [False, True]


def test_what_the_text_stands_under_counts_as_its_own() -> None:
    texts = [chunk("Run make install.", breadcrumb=("Linux",)), chunk("Run make install.", breadcrumb=("Windows",))]

    assert repeats(texts, "how to install on Windows") == [False, False]
    assert repeats(texts, "how to install") == [False, True]


def test_a_repeat_of_a_repeat_is_compared_with_what_was_kept() -> None:
    # each step changes three of nine words' shingles: the second is near the first, the third is not
    steps = ["a b c d e f g h i j k l m n o", "a b c d e f g h i j k l m n X", "a b c d e f g h i j k l Y Z X"]

    assert repeats([chunk(step) for step in steps], "?") == [False, True, False]


def test_short_texts_repeat_only_when_they_are_equal() -> None:
    assert repeats([chunk("See page 4."), chunk("see page 4"), chunk("See page 5.")], "?") == [False, True, False]


def test_texts_without_words_repeat_each_other() -> None:
    assert repeats([chunk("---"), chunk("***")], "?") == [False, True]


def test_there_may_be_no_texts() -> None:
    assert repeats([], "?") == []
