from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from rag.answering import writing
from rag.answering.followup import joined
from rag.answering.prompting import Talk
from rag.answering.rewriting import MOST_CHARS, TURN_CHARS, Rewriter
from rag.answering.writing import TIMEOUT_S
from rag.calls import Call, ChatRequest, Finish, Message, Reply
from rag.errors import Busy, UpstreamTimeout
from rag.values import Deadline, TenantId
from tests.fakes import FakeChat

ACME, RIVAL = TenantId(UUID(int=1)), TenantId(UUID(int=2))
TALK = Talk(
    history=(
        Message("user", "What does a card refund cost?"),
        Message("assistant", "It costs 0.10 EUR. [1]"),
    ),
    instructions="Be brief.",
    feature="completions",
)
ASKED = "And for direct debits?"
WRITTEN = "What does a direct debit refund cost?"


class CutChat(FakeChat):
    """Replies that end as *finish* says."""

    def __init__(self, *pieces: str, finish: Finish) -> None:
        super().__init__(*pieces)
        self.finish = finish

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        return replace(await super().complete(request, call), finish=self.finish)


BY_RULE = joined(ASKED, TALK.history)


async def written(chat: FakeChat, asked: str = ASKED, talk: Talk = TALK, *, seconds: float = 5.0) -> str:
    """What a new rewriter makes of the question."""
    return await Rewriter(chat).standalone(ACME, asked, talk, deadline=Deadline.after(seconds))


async def test_a_follow_up_is_what_the_model_writes() -> None:
    chat = FakeChat("  What does a direct\n", "debit refund cost? ")

    assert await written(chat) == WRITTEN


async def test_the_request_is_short_cold_and_of_its_own_task() -> None:
    chat = FakeChat(WRITTEN)

    await written(chat)

    [request], [call] = chat.requests, chat.calls
    assert (request.task, request.temperature, request.passages, request.question) == ("rewrite", 0.0, (), ASKED)
    assert request.max_tokens <= 128
    assert (call.tenant_id, call.feature) == (ACME, "completions")
    assert call.deadline.remaining_s() <= TIMEOUT_S
    assert [message.role for message in request.messages] == ["system", "user"]
    told = request.messages[1].text
    assert "User: What does a card refund cost?\nAssistant: It costs 0.10 EUR.\n" in told
    assert told.endswith(f"last message: {ASKED}")
    assert "Be brief." not in told


async def test_the_model_reads_the_end_of_the_last_turns_and_no_marks_of_turns() -> None:
    turns = [Message("assistant" if n % 2 else "user", f"<|im_end|>turn {n} " + "x" * 5000) for n in range(40)]
    chat = FakeChat(WRITTEN)

    await written(chat, talk=Talk(history=tuple(turns)))

    told = chat.requests[0].messages[1].text
    assert len(told) < 7 * TURN_CHARS
    assert "<|im_end|>" not in told


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n ",
        '""',
        "x" * (MOST_CHARS + 1),
        "What does PD-41 cost?",  # an identifier that nobody named
    ],
)
async def test_a_reply_that_cannot_be_the_question_leaves_it_to_the_rule(reply: str) -> None:
    assert await written(FakeChat(reply)) == BY_RULE


async def test_a_reply_that_was_cut_leaves_the_question_to_the_rule() -> None:
    assert await written(CutChat(WRITTEN, finish="length")) == BY_RULE
    assert await written(CutChat(WRITTEN, finish="stop")) == WRITTEN


@pytest.mark.parametrize("error", [UpstreamTimeout("late"), Busy("full", retry_after_s=1)], ids=["upstream", "busy"])
async def test_a_failure_leaves_the_question_to_the_rule(error: Exception) -> None:
    assert await written(FakeChat(error=error)) == BY_RULE


async def test_a_model_that_dawdles_is_waited_for_no_longer_than_the_deadline_or_its_own_limit() -> None:
    slow = FakeChat(WRITTEN, delay_s=30)

    async with asyncio.timeout(5):
        by_deadline = await written(slow, seconds=0.05)
        by_limit = await Rewriter(slow, timeout_s=0.05).standalone(ACME, ASKED, TALK, deadline=Deadline.after(60))

    assert by_deadline == by_limit == BY_RULE
    assert len(slow.requests) == 2


@pytest.mark.parametrize("asked", ["And PD-41?", 'And "direct debit"?', "And now: " + "word " * 100])
async def test_a_question_that_names_what_it_wants_or_says_much_is_not_rewritten(asked: str) -> None:
    chat = FakeChat(WRITTEN)

    assert await written(chat, asked) == asked
    assert chat.requests == []


async def test_what_the_model_quotes_is_searched_for_as_words() -> None:
    assert await written(FakeChat('"What does a “direct debit” refund cost?"')) == WRITTEN


async def test_an_identifier_of_the_conversation_may_come_into_the_question() -> None:
    talk = Talk(history=(Message("user", "What does PD-41 mean?"), Message("assistant", "Fraud. [1]")))

    assert await written(FakeChat("Which evidence helps against PD-41?"), "Which evidence helps?", talk) == (
        "Which evidence helps against PD-41?"
    )


async def test_the_same_question_after_the_same_turns_is_written_once_for_each_tenant() -> None:
    chat = FakeChat(WRITTEN)
    rewriter = Rewriter(chat)
    another = Talk(history=(Message("user", "What does a payout cost?"), *TALK.history[1:]))
    later = Deadline.after(5)

    first = await rewriter.standalone(ACME, ASKED, TALK, deadline=later)
    again = await rewriter.standalone(ACME, ASKED, TALK, deadline=later)
    once = len(chat.requests)
    await rewriter.standalone(RIVAL, ASKED, TALK, deadline=later)
    await rewriter.standalone(ACME, ASKED, another, deadline=later)
    await rewriter.standalone(ACME, "And for cash?", TALK, deadline=later)

    assert (first, again, once) == (WRITTEN, WRITTEN, 1)
    assert len(chat.requests) == 4


async def test_a_failure_is_not_remembered() -> None:
    chat = FakeChat(WRITTEN, error=UpstreamTimeout("late"))
    rewriter = Rewriter(chat)

    failed = await rewriter.standalone(ACME, ASKED, TALK, deadline=Deadline.after(5))
    chat.error = None
    worked = await rewriter.standalone(ACME, ASKED, TALK, deadline=Deadline.after(5))

    assert (failed, worked) == (BY_RULE, WRITTEN)


async def test_the_memory_is_bounded_and_what_was_asked_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "REMEMBERED", 2)
    chat = FakeChat(WRITTEN)
    rewriter = Rewriter(chat)

    for asked in ("And for cash?", "And for notes?", "And for cash?", "And for coins?", "And for cash?"):
        await rewriter.standalone(ACME, asked, TALK, deadline=Deadline.after(5))
    known = len(chat.requests)
    await rewriter.standalone(ACME, "And for notes?", TALK, deadline=Deadline.after(5))

    assert (known, len(chat.requests)) == (3, 4)


async def test_earlier_answers_of_a_data_class_go_only_where_that_may() -> None:
    chat = FakeChat(WRITTEN)

    await written(chat, talk=replace(TALK, tags=frozenset({"personal"})))

    assert chat.requests[0].tags == {"personal"}
