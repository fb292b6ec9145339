"""What `rag doctor` says of the chains."""

from __future__ import annotations

from rag.commands.doctor import chains
from rag.settings import Settings


def test_the_chains_of_searches_are_listed_like_the_one_of_answers() -> None:
    settings = Settings(chat_chains={"answer": ("one", "extractive"), "hyde": ("two", "one"), "rewrite": ("two",)})

    assert chains(settings) == [
        "answers by one, else extractive",
        "other words for high recall (hyde) by two, else one",
        "follow-ups are rewritten by two",
    ]


def test_what_has_no_chain_is_said_with_what_is_done_without() -> None:
    assert chains(Settings()) == [
        "answers by extractive",
        'no chain for hyde: "recall": "high" finds what "normal" finds',
        "no chain for rewrite: follow-ups are searched for with what precedes",
    ]
