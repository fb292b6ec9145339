"""Follow-ups on their way through an answer: what is searched, judged, asked, kept and paid for."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rag.answering.answerer import Answerer
from rag.answering.prompting import Talk
from rag.calls import Answer, Call, ChatRequest, Message
from rag.errors import BudgetTooSmall, UpstreamTimeout
from rag.store.engine import Database
from rag.telemetry import Metrics
from rag.values import Deadline, Principal, TenantId
from rag.wiring import guarded
from tests.integration.caching import ScriptedChat, answerer, settings
from tests.integration.corpus import prepared, question, store
from tests.integration.spending import give, ledger, reservations

BEFORE = (Message("user", "How many days does a card refund take?"), Message("assistant", "Five days. [1]"))
FOLLOW_UP = "And for cash?"
WRITTEN = "How many days does a cash refund take?"
CASH = prepared("cash.md", "How many days a cash refund does take: nine days.")
OTHERS = prepared("cards.md", "How many days a card refund does take: five days.")


class TaskChat(ScriptedChat):
    """Writes *written* when it is to rewrite, and answers otherwise."""

    def __init__(self, written: str = WRITTEN, *, error: Exception | None = None) -> None:
        super().__init__("Nine days. ", "[1]")
        self.rewriter = ScriptedChat(written, error=error)

    def stream(self, request: ChatRequest, call: Call) -> Any:
        return self.rewriter.stream(request, call) if request.task == "rewrite" else super().stream(request, call)


REWRITING = settings().model_copy(update={"chat_chains": {"answer": ("one",), "rewrite": ("two",)}})


@pytest.fixture
async def filled(database: Database, tenant: TenantId) -> TenantId:
    await store(database, tenant, [CASH, OTHERS])
    return tenant


async def ask(
    answering: Answerer, tenant: TenantId, asked: str = FOLLOW_UP, history: tuple[Message, ...] = BEFORE
) -> Answer:
    who = Principal(tenant, frozenset({"query"}))
    talk = Talk(history=history, feature="completions")
    return await answering.answer(who, question(asked), max_tokens=100, deadline=Deadline.after(10), talk=talk)


async def test_what_the_model_wrote_is_searched_and_judged_and_the_answer_is_to_the_users_words(
    database: Database, filled: TenantId
) -> None:
    chat = TaskChat()

    answer = await ask(answerer(database, chat, REWRITING), filled)

    assert answer.status == "answered"
    assert answer.sources[0].chunk.external_id == "cash.md"
    [request] = chat.requests
    assert request.question == WRITTEN
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert f"Question: {FOLLOW_UP}" in request.messages[-1].text
    assert WRITTEN not in request.messages[-1].text
    assert "rewrite" in answer.timings_ms


async def test_a_rewriting_that_fails_leaves_the_question_as_it_is(database: Database, filled: TenantId) -> None:
    chat = TaskChat(error=UpstreamTimeout("late"))

    answer = await ask(answerer(database, chat, REWRITING), filled, "How many days does a cash refund take then?")

    assert answer.status == "answered"
    assert chat.requests[0].question == "How many days does a cash refund take then?"


async def test_without_a_chain_for_it_a_follow_up_is_searched_with_the_turns_it_leans_on(
    database: Database, filled: TenantId
) -> None:
    chat = TaskChat()

    answer = await ask(answerer(database, chat), filled)

    assert answer.status == "answered"
    assert chat.rewriter.requests == []
    assert chat.requests[0].question == f"{FOLLOW_UP} {BEFORE[0].text} {FOLLOW_UP}"
    assert f"Question: {FOLLOW_UP}" in chat.requests[0].messages[-1].text


async def test_a_question_with_nothing_before_it_is_not_rewritten(database: Database, filled: TenantId) -> None:
    chat = TaskChat()

    answer = await ask(answerer(database, chat, REWRITING), filled, WRITTEN, ())

    assert (chat.rewriter.requests, chat.requests[0].question) == ([], WRITTEN)
    assert "rewrite" not in answer.timings_ms


async def test_an_answer_is_kept_for_the_words_of_the_user_and_the_question_they_became(
    database: Database, filled: TenantId
) -> None:
    chat = TaskChat()
    answering = answerer(database, chat, REWRITING)

    first = await ask(answering, filled)
    again = await ask(answering, filled)
    other_words = await ask(answering, filled, "Und bar?")
    chat.rewriter.pieces = ("How many days does a refund of cash take?",)
    other_question = await ask(answerer(database, chat, REWRITING), filled)

    assert [answer.cache for answer in (first, again, other_words, other_question)] == ["miss", "hit", "miss", "miss"]


async def test_a_rewriting_is_metered_as_a_call_of_its_own_task(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    chat = TaskChat()
    await give(database, filled, 100_000)

    async with guarded(chat, REWRITING, database, Metrics()) as model:
        await ask(answerer(database, model, REWRITING), filled)

    assert sorted(ledger(owner, filled, "task, feature, outcome")) == [
        ("answer", "completions", "answered"),
        ("rewrite", "completions", "answered"),
    ]
    assert reservations(owner, filled) == 0


async def test_a_tenant_without_budget_is_told_so_and_nothing_is_rewritten(
    database: Database, filled: TenantId
) -> None:
    chat = TaskChat()
    await give(database, filled, 10)

    async with guarded(chat, REWRITING, database, Metrics()) as model:
        answering = answerer(database, model, REWRITING)
        with pytest.raises(BudgetTooSmall):
            await ask(answering, filled, "How many days does a cash refund take then?")

    assert (chat.rewriter.requests, chat.requests) == ([], [])
