from __future__ import annotations

import pytest

from rag.answering.followup import FEW, MOST_TURNS, TURN_CHARS, joined, leans
from rag.calls import Message

HOTEL = "What is the hotel cap per night in Paris?"


def talk(*turns: str) -> tuple[Message, ...]:
    """A conversation that the user begins, each in turn."""
    return tuple(Message("assistant" if n % 2 else "user", turn) for n, turn in enumerate(turns))


@pytest.mark.parametrize(
    "message",
    [
        "And for cards?",
        "What about lunch?",
        "How long does it take?",
        "Who signs it?",
        "Does that apply to contractors too?",
        "Which one then?",
        "Why?",
        "Singapore?",
        "Und in Zürich?",
        "Wie lange dauert das?",
        "Et pour les cartes ?",
        "¿Y en Madrid?",
        "E quando è pagato?",
        "En voor kaarten?",
    ],
)
def test_a_message_leans_that_goes_on_or_points_back_and_says_little_of_its_own(message: str) -> None:
    assert leans(message)


@pytest.mark.parametrize(
    "message",
    [
        "What is the mileage rate for a private car?",
        "And who pays my parking fine on a business trip?",
        "Why does the journal flush so slowly on mirrored disks?",
        "If a receipt is lost, what form do I submit for it?",
        "Wie hoch ist die Kilometerpauschale für ein privates Auto?",
        "Quel est le plafond d'une nuit d'hôtel en Suisse?",
        "А в Цюрихе?",  # of a language without lists of words
        "信用卡退款需要多长时间",  # no blanks: how much it says of its own cannot be told
    ],
)
def test_a_message_that_says_what_it_asks_stands_alone(message: str) -> None:
    assert not leans(message)


@pytest.mark.parametrize("message", ["And HLY-4033?", 'And "mixed state"?', "What about «mixed state»?"])
def test_a_message_with_an_identifier_or_a_quoted_phrase_stands_alone(message: str) -> None:
    history = talk(HOTEL, "EUR 195. [1]")

    assert joined(message, history) == message


def test_words_of_its_own_are_counted_up_to_a_few() -> None:
    own = ["budget", "course", "ticket", "hotel"]

    assert leans(f"And {' '.join(own[:FEW])}?")
    assert not leans(f"And {' '.join(own)}?")


def test_what_leans_is_searched_with_the_users_message_before_it_and_says_its_own_twice() -> None:
    history = talk(HOTEL, "The cap for Paris is EUR 195. [1]")

    assert joined("And in Zurich?", history) == f"And in Zurich? {HOTEL} And in Zurich?"


def test_what_the_message_before_leans_on_comes_too_but_nothing_behind_what_stands_alone() -> None:
    one = talk("Who are you?", "An assistant.", HOTEL, "EUR 195. [1]", "And in Tokyo?", "EUR 205. [1]")

    found = joined("Singapore?", one)

    assert found == f"Singapore? {HOTEL} And in Tokyo? Singapore?"


def test_only_the_last_turns_are_searched() -> None:
    history = talk(*[f"And in {'abcdefghij'[n // 2] * 4}?" if n % 2 == 0 else "Yes. [1]" for n in range(20)])

    found = joined("And here?", history)

    assert found == "And here? And in iiii? And in jjjj? And here?"
    assert MOST_TURNS == 3


def test_what_stands_alone_or_has_nothing_before_it_is_searched_as_it_is() -> None:
    fine = "And who pays my parking fine on a business trip?"

    assert joined(fine, talk(HOTEL, "EUR 195. [1]")) == fine
    assert joined("And in Zurich?", ()) == joined("And in Zurich?", talk(" ", "Hello.")) == "And in Zurich?"


def test_what_earlier_messages_quote_or_cannot_be_stored_is_not_searched_as_it_stands() -> None:
    history = talk('What does "mixed state" mean?\n\0', "Two releases at once. [1]")

    found = joined("And how long?", history)

    assert '"' not in found
    assert "\0" not in found
    assert "mixed state mean?" in found


def test_of_a_long_message_the_end_is_searched() -> None:
    history = talk("x" * 5000 + " " + HOTEL, "EUR 195. [1]")

    found = joined("And in Zurich?", history)

    assert HOTEL in found
    assert len(found) < TURN_CHARS + 40
