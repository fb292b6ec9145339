from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from rag.answering.admission import AdmittedChat
from rag.answering.gate import Gate, Limits
from rag.calls import Call, ChatRequest, Reply
from rag.errors import Busy, UpstreamIncomplete
from rag.values import Deadline, tenant_id
from tests.fakes import FakeChat

REQUEST = ChatRequest("answer", "Why?", (), (), 100)


class CountingChat(FakeChat):
    """Remembers how many of its answers were made at the same time."""

    at_once = most = 0

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            async for piece in super().stream(request, call):
                yield piece
        finally:
            self.at_once -= 1


def call(name: str = "acme") -> Call:
    return Call(tenant_id(name), Deadline.after(5))


async def test_never_more_answers_than_slots_are_made_and_those_beyond_the_queue_leave_no_trace() -> None:
    chat = CountingChat("Yes.", delay_s=0.01)
    gate = Gate(Limits(slots=3, queue=4))
    admitted = AdmittedChat(chat, gate)
    calls = [call(f"tenant {n}") for n in range(20)]

    replies = await asyncio.gather(*(admitted.complete(REQUEST, c) for c in calls), return_exceptions=True)

    assert sum(isinstance(reply, Reply) for reply in replies) == 7
    assert sum(isinstance(reply, Busy) for reply in replies) == 13
    assert (chat.most, len(chat.requests)) == (3, 7)
    assert (gate.running, gate.waiting) == (0, 0)


async def test_a_stream_holds_its_slot_until_its_last_piece() -> None:
    gate = Gate(Limits(slots=1, queue=0))
    pieces = []

    async for piece in AdmittedChat(FakeChat("a", "b"), gate).stream(REQUEST, call()):
        assert gate.running == 1
        pieces.append(piece)

    assert pieces[:2] == ["a", "b"]
    assert isinstance(pieces[2], Reply)
    assert gate.running == 0


async def test_a_stream_for_which_there_is_no_room_is_refused_before_its_first_piece() -> None:
    gate = Gate(Limits(slots=1, queue=0))
    chat = CountingChat("a")
    held = gate.enter(tenant_id("acme"), batch=False)

    with pytest.raises(Busy):
        await anext(AdmittedChat(chat, gate).stream(REQUEST, call()))
    gate.leave(held)

    assert (gate.waiting, gate.running, chat.requests) == (0, 0, [])


async def test_a_stream_that_is_closed_or_fails_frees_its_slot() -> None:
    gate = Gate(Limits(slots=1, queue=0))
    chat = CountingChat("a", "b", error=UpstreamIncomplete())

    async with aclosing(AdmittedChat(chat, gate).stream(REQUEST, call())) as pieces:
        await anext(pieces)
    closed = (gate.running, chat.at_once)
    with pytest.raises(UpstreamIncomplete):
        await AdmittedChat(chat, gate).complete(REQUEST, call())

    assert closed == (0, 0)
    assert gate.running == 0
