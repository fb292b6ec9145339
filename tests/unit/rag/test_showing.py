from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.answering.prompting import ABSTAIN
from rag.answering.showing import Showing, shown_whole

WORDS = [*ABSTAIN.split(), ABSTAIN, "naire", " ", "**", "\n", ".", "But", "[1]", "[9]", "["]
REPLIES = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).map("".join) | st.builds(
    str.__add__, st.sampled_from(["", " ", "**", ABSTAIN, ABSTAIN[:-1], ABSTAIN[:20]]), st.text(max_size=20)
)


def in_pieces(text: str, cuts: list[int]) -> str:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    showing = Showing([1])
    return "".join(showing.feed(text[a:b]) for a, b in itertools.pairwise(edges)) + showing.rest()


@pytest.mark.parametrize(
    "reply",
    [ABSTAIN, ABSTAIN[:-1], f" {ABSTAIN}\n", f"**{ABSTAIN}**", ABSTAIN.upper(), f"{ABSTAIN} [1]", f"{ABSTAIN} But so.",
     "", " \n"],
)  # fmt: skip
def test_a_reply_that_abstains_shows_nothing(reply: str) -> None:
    assert shown_whole(reply, [1]) == ""
    assert in_pieces(reply, list(range(len(reply)))) == ""


@pytest.mark.parametrize(
    "reply", ["The sources do not answer this questionnaire.", "The sources do not answer", "Fees. " + ABSTAIN, "The"]
)
def test_other_words_are_an_answer(reply: str) -> None:
    assert shown_whole(reply, [1]) == reply


def test_an_answer_is_shown_as_soon_as_it_cannot_abstain() -> None:
    showing = Showing([1])

    assert [showing.feed(piece) for piece in ("\n", "The ", "fee ", "is 12 ", "[1]")] == [
        "",
        "",
        "The fee",
        " is 12",
        " [1]",
    ]


@given(REPLIES, st.lists(st.integers(0, 80), max_size=8))
def test_every_way_of_cutting_a_reply_shows_the_same(reply: str, cuts: list[int]) -> None:
    assert in_pieces(reply, cuts) == shown_whole(reply, [1])
    assert in_pieces(reply, list(range(len(reply)))) == shown_whole(reply, [1])
