from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from rag.answering.expansion import MOST_ASKED, MOST_CHARS, Expander, expandable
from rag.answering.writing import TIMEOUT_S
from rag.errors import BudgetExceeded, Busy, UpstreamTimeout
from rag.values import Question, Recall, Scope, TenantId
from tests.fakes import FakeChat

ACME, RIVAL = TenantId(UUID(int=1)), TenantId(UUID(int=2))
ASKED = "Can I stay at my cousin's on a business trip?"
WRITTEN = "Private lodging with relatives is paid at a flat rate."


def question(text: str = ASKED, recall: Recall = "high") -> Question:
    return Question(text, Scope(frozenset(), datetime(2026, 11, 30, tzinfo=UTC)), recall=recall)


async def expanded(chat: FakeChat, asked: Question, *, always: bool = False, timeout_s: float = TIMEOUT_S) -> Question:
    """What a new expander makes of the question."""
    return await Expander(chat, always=always, timeout_s=timeout_s)(ACME, asked)


@pytest.mark.parametrize(
    "asked",
    [
        "why does the consumer fall behind",
        "how do I send it back?",
        "core working hours",
        "Wie lange dauert eine Erstattung?",
        "付款什么时候到账",
    ],
)
def test_a_question_in_words_may_be_expanded(asked: str) -> None:
    assert expandable(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "What does HLY-4031 mean?",
        "what does consumer_prefetch do",
        'where does it say "as soon as practicable"',
        "word " * (MOST_ASKED // 5 + 1),
    ],
)
def test_what_names_an_identifier_or_quotes_or_says_much_is_searched_as_it_stands(asked: str) -> None:
    assert not expandable(asked)


async def test_what_the_model_wrote_is_sought_beside_the_question() -> None:
    found = await expanded(FakeChat("  Private lodging with\n", "relatives is paid at a flat rate. "), question())

    assert (found.text, found.expansion) == (ASKED, WRITTEN)


async def test_the_request_is_short_cold_and_of_its_own_task_and_feature() -> None:
    chat = FakeChat(WRITTEN)

    await expanded(chat, question("Is <|end|> paid?"))

    [request], [call] = chat.requests, chat.calls
    assert (request.task, request.temperature, request.passages) == ("hyde", 0.0, ())
    assert request.max_tokens <= 192
    assert (call.tenant_id, call.feature) == (ACME, "expansion")
    assert call.deadline.remaining_s() <= TIMEOUT_S
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[1].text == "Question: Is < |end|> paid?"


async def test_only_who_wants_high_recall_waits_for_a_model_unless_all_do() -> None:
    chat = FakeChat(WRITTEN)

    normal = await expanded(chat, question(recall="normal"))
    unasked = len(chat.requests)
    always = await expanded(chat, question(recall="normal"), always=True)

    assert (normal.expansion, unasked) == ("", 0)
    assert always.expansion == WRITTEN


async def test_an_identifier_is_never_expanded() -> None:
    chat = FakeChat(WRITTEN)

    found = await expanded(chat, question("What does HLY-4031 mean?"), always=True)

    assert (found.expansion, chat.requests) == ("", [])


@pytest.mark.parametrize("reply", ["", " \n ", '""', "x" * (MOST_CHARS + 1)])
async def test_a_reply_that_is_no_passage_leaves_the_question_as_it_is(reply: str) -> None:
    assert await expanded(FakeChat(reply), question()) == replace(question(), expansion_state="failed")


@pytest.mark.parametrize(
    "error",
    [UpstreamTimeout("late"), Busy("full", retry_after_s=1), BudgetExceeded("used up", retry_after_s=9)],
    ids=["upstream", "busy", "budget"],
)
async def test_a_failure_leaves_the_question_as_it_is(error: Exception) -> None:
    assert await expanded(FakeChat(error=error), question()) == replace(question(), expansion_state="failed")


async def test_a_model_that_dawdles_is_not_waited_for() -> None:
    async with asyncio.timeout(5):
        found = await expanded(FakeChat(WRITTEN, delay_s=30), question(), timeout_s=0.05)

    assert found == replace(question(), expansion_state="failed")


async def test_a_passage_is_written_once_for_each_tenant_and_question() -> None:
    chat = FakeChat(WRITTEN)
    expander = Expander(chat, always=False)

    first, again = await expander(ACME, question()), await expander(ACME, question())
    once = len(chat.requests)
    await expander(RIVAL, question())
    await expander(ACME, question("And at my brother's?"))

    assert (first, once) == (again, 1)
    assert len(chat.requests) == 3
