"""Conversations about the demo corpus, with the real embedder: what is found for a second question, searched how."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest_asyncio

from eval.matching import contains
from rag.answering.followup import joined
from rag.calls import Message
from rag.values import Question, Scope
from tests.integration.demo import FIXTURES, Demo, mrr, rank_of, recall

TODAY = Scope(frozenset(), datetime(2026, 11, 30, tzinfo=UTC))


@dataclass(frozen=True)
class Conversation:
    """The user and the assistant in turn, and the passage that answers the last question."""

    tenant: str
    kind: str
    turns: tuple[str, ...]
    document: str
    passage: str

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate(self.turns[:-1]))


def conversation(row: dict[str, Any]) -> Conversation:
    [gold] = row["gold"]
    return Conversation(row["tenant"], row["kind"], tuple(row["turns"]), gold["document"], gold["passage"])


ALL = [conversation(json.loads(row)) for row in (FIXTURES / "followups.jsonl").read_text("utf-8").splitlines()]
SEARCHED: dict[str, Callable[[Conversation], str]] = {
    "last": lambda talk: talk.turns[-1],
    "all": lambda talk: f"{talk.turns[-3]} {talk.turns[-1]}",
    "rule": lambda talk: joined(talk.turns[-1], talk.history),
}


@pytest_asyncio.fixture(scope="module")
async def ranks(demo: Demo) -> dict[tuple[str, str], list[int | None]]:
    """By kind of conversation and way of searching: at which rank the passage is, not reranked."""
    search = demo.retriever()
    found: dict[tuple[str, str], list[int | None]] = {}
    for talk in ALL:
        for way, text in SEARCHED.items():
            asked = Question(text(talk), TODAY, top_k=50, rerank=False)
            hits = await search.retrieve(demo.tenants[talk.tenant], asked)
            found.setdefault((talk.kind, way), []).append(rank_of([(talk.document, talk.passage)], hits))
    return found


def test_there_are_enough_conversations_and_every_passage_stands_in_its_document() -> None:
    counts = {kind: sum(talk.kind == kind for talk in ALL) for kind in ("follow_up", "alone")}

    assert counts["follow_up"] >= 40
    assert counts["alone"] >= 20
    for talk in ALL:
        text = (FIXTURES / "corpus" / talk.tenant / talk.document).read_text("utf-8")
        assert contains(text, talk.passage), talk


def test_a_follow_up_is_found_with_what_it_leans_on_and_not_alone(
    ranks: dict[tuple[str, str], list[int | None]],
) -> None:
    alone, together, rule = (ranks["follow_up", way] for way in SEARCHED)

    assert recall(alone) < 0.6
    assert recall(rule) > 0.9
    assert mrr(rule) > mrr(alone) + 0.35
    assert recall(together) - 0.05 < recall(rule)


def test_a_question_that_stands_alone_is_found_as_if_nothing_had_been_said_before(
    ranks: dict[tuple[str, str], list[int | None]],
) -> None:
    alone, together, rule = (ranks["alone", way] for way in SEARCHED)

    assert recall(rule) == recall(alone) > 0.9
    assert mrr(rule) >= mrr(alone) - 0.01
    assert recall(together) < recall(rule) - 0.1
