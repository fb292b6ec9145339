from __future__ import annotations

import pytest

from rag.answering.metering import Size, paid_chains, size_of
from rag.calls import ChatRequest, Message
from rag.settings import Settings, Target


def asked(*texts: str, max_tokens: int = 100) -> ChatRequest:
    return ChatRequest("answer", "?", (), tuple(Message("user", text) for text in texts), max_tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("refunds", 4),  # half of 7 characters, rounded up
        ("größe", 3),  # half of 5 characters; 7 bytes are fewer
        ("返金", 2),  # 6 bytes by 3, more than half of 2 characters
        ("📦📦📦", 4),  # 12 bytes by 3
        ("\ud800", 1),  # a lone surrogate cannot be sent, and breaks nothing here
    ],
)
def test_a_text_has_at_most_half_its_characters_or_a_third_of_its_bytes_in_tokens(text: str, tokens: int) -> None:
    assert size_of(asked(text)) == Size(tokens + 8, 100)


def test_every_message_counts_with_its_frame() -> None:
    assert size_of(asked("ab", "abcd")) == Size(1 + 8 + 2 + 8, 100)


def test_only_targets_that_may_cost_something_are_paid_for() -> None:
    main = Target(name="main", dialect="openai", url="https://api.openai.com/v1", model="gpt-4o")
    settings = Settings(
        chat_targets=(main,), chat_chains={"answer": ("main", "extractive"), "rewrite": ("extractive",)}
    )

    assert paid_chains(settings) == {"answer": (main,), "rewrite": ()}
