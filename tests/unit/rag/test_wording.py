from __future__ import annotations

import json
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.answering.cache import Nearness, choose
from rag.answering.wording import says, says_the_same
from rag.store.answers import SimilarAnswer
from tests.conftest import REPOSITORY

PAIRS = [json.loads(line) for line in (REPOSITORY / "fixtures" / "cache_pairs.jsonl").read_text("utf-8").splitlines()]
DIFFERENT = [pair for pair in PAIRS if not pair["same"]]
ANYWHERE = Nearness(distance=2.0, margin=0.0)


@pytest.mark.parametrize("pair", DIFFERENT, ids=lambda pair: f"{pair['a']} - {pair['b']}")
def test_bug_25_a_question_that_asks_something_else_is_not_answered_whatever_the_distance(
    pair: dict[str, str],
) -> None:
    chosen = [
        choose(asked, [SimilarAnswer(kept, 0.0, "answer")], ANYWHERE)
        for asked, kept in ((pair["a"], pair["b"]), (pair["b"], pair["a"]))
    ]

    assert chosen == [None, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is the hotel allowance?", "what's the hotel allowance"),
        ("Which regions are supported?", "What regions are supported?"),
        ("How do I restore a backup?", "Please tell us how to restore backups."),
        ("Where can I find the policies?", "Where do we locate the policy?"),
        ("Who can’t approve purchases?", "Who can not approve a purchase"),
        ("When must reports be submitted?", "When do reports have to be submitted?"),
        ("Wie lange dauert eine Rückerstattung?", "wie lange dauert eine rückerstattung"),
    ],
)
def test_harmless_words_and_the_ending_of_the_plural_are_forgiven(one: str, other: str) -> None:
    assert says_the_same(one, other)


def test_what_a_question_says_are_its_words_and_its_auxiliaries_in_order() -> None:
    said = says("Can't a manager's 2.5 kg boxes be sent to HLY-4031 for 3€?")

    assert said == (["not", "manager", "§", "2.5", "kg", "box", "sent", "to", "hly-4031", "for", "3", "€"], ["can"])


@given(st.text(max_size=60))
def test_every_text_with_a_word_says_the_same_as_itself(text: str) -> None:
    assert says_the_same(text, f" {text} ") == bool(says(text)[0])


@given(st.lists(st.sampled_from("not off 2 3 + kg ms Go Rust who what before after to from only".split()), max_size=6))  # noqa: SIM905
def test_words_that_carry_meaning_say_the_same_in_their_order_only(words: list[str]) -> None:
    for others in permutations(words):
        assert says_the_same(" ".join(words), " ".join(others)) == (list(others) == words != [])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'userId' is not used", "'userId:' is not used"),
        ("When is Object.is() true?", "When is !Object.is() true?"),
        ("What does _private mean?", "What does private mean?"),
        ("What does C++ cost?", "What does C cost?"),
        ("Is it .5 or 5?", "Is it 5 or 5?"),
        ("???", "!!!"),
        ("What is the policy for US staff?", "What is the policy for us staff?"),
        ("¿Quién paga a Juan?", "¿Quién paga Juan?"),
        ("Ile dni od 5 do 10?", "Ile dni od 5 10?"),
    ],
)
def test_signs_within_a_question_carry_meaning(one: str, other: str) -> None:
    assert not says_the_same(one, other)


def test_no_two_questions_of_the_suite_are_taken_for_one() -> None:
    suite = json.loads((REPOSITORY / "fixtures" / "golden.json").read_text("utf-8"))["questions"]
    questions = [question["question"] for question in suite]

    taken = [(one, other) for one, other in combinations(questions, 2) if says_the_same(one, other)]

    assert len(questions) > 100
    assert taken == []


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([("Which plans are free?", 0.02, "a")], "a"),
        ([("Which plans are free?", 0.06, "a")], None),  # too far
        ([("Which plans are free?", 0.02, "a"), ("Which plans are not free?", 0.03, "b")], None),  # b is about as near
        ([("Which plans are not free?", 0.01, "b"), ("Which plans are free?", 0.02, "a")], None),  # b is nearer
        ([("Which plans are free?", 0.02, "a"), ("Which plans are not free?", 0.05, "b")], "a"),
        ([("Which plans are free?", 0.02, "a"), ("What plans are free?", 0.02, "a")], "a"),  # no other answer
        ([], None),
    ],
)
def test_the_nearest_answer_is_given_if_no_other_one_is_about_as_near(
    found: list[tuple[str, float, str]], chosen: str | None
) -> None:
    similar = [SimilarAnswer(*one) for one in found]

    answer = choose("What plan is free?", similar, Nearness(distance=0.05, margin=0.02))

    assert (answer and answer.body) == chosen
