from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import pytest

from rag.analysis import analyse
from rag.retrieval.repeats import ALIKE, repeats
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


def compared_one_by_one(texts: Sequence[str], question: str) -> list[bool]:
    """As `repeats` says it is, without its short cuts."""

    def triples(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[n : n + 3]) for n in range(max(1, len(words) - 2))}

    def named(text: str) -> set[str]:
        return set(analyse(question)) & set(analyse(text))

    kept: list[str] = []
    found = []
    for text in texts:
        near = [one for one in kept if len(triples(text) & triples(one)) >= ALIKE * len(triples(text) | triples(one))]
        found.append(any(named(text) <= named(one) for one in near))
        kept += [] if found[-1] else [text]
    return found


def changed(words: Sequence[str], rng: random.Random) -> str:
    """The words with up to three of them replaced by others."""
    at = rng.sample(range(len(words)), min(len(words), rng.randint(0, 3)))
    return " ".join(f"x{rng.randint(1, 9)}" if n in at else word for n, word in enumerate(words))


@pytest.mark.parametrize("seed", range(50))
def test_it_is_as_if_each_were_compared_with_each(seed: int) -> None:
    rng = random.Random(seed)
    pages = [[f"w{rng.randint(1, 40)}" for _ in range(rng.randint(1, 60))] for _ in range(3)]
    texts = [changed(rng.choice(pages), rng) for _ in range(12)]

    found = repeats([chunk(text) for text in texts], "x1 x2 w3?")

    assert found == compared_one_by_one(texts, "x1 x2 w3?")
