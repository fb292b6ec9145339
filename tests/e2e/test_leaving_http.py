"""Callers who leave before their answer is there: nobody works, waits or pays for them any longer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rag.calls import Call, ChatRequest, Reply
from tests.e2e.conftest import Caller, OpenFake
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.fakes import StreamedChat

pytestmark = pytest.mark.quiet

SOON_S = 0.5
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/query": {"query": QUESTION},
    "/v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": QUESTION}]},
}
every_route = pytest.mark.parametrize("route", ROUTES)
plain_and_streamed = pytest.mark.parametrize("stream", [False, True])


class Silent(StreamedChat):
    """Says *pieces*, then nothing, until it is left; keeps when that was."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.begun = asyncio.Event()
        self.left_at = 0.0

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        try:
            for piece in self.pieces:
                yield piece
            self.begun.set()
            await asyncio.sleep(60)
            yield Reply("", "silent", "silent-1")
        finally:
            self.left_at = time.monotonic()


@asynccontextmanager
async def asking(caller: Caller, route: str, *, stream: bool) -> AsyncIterator[None]:
    """A question that is being asked while the block runs, and whose caller leaves at its end."""
    task = asyncio.create_task(caller.send("POST", route, json={**ROUTES[route], "stream": stream}))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def waiting(caller: Caller) -> int:
    """How many answers wait for their turn."""
    found = re.search(
        r'^rag_answering\{state="waiting"\} (\d+)', (await caller.http.get("/metrics")).text, re.MULTILINE
    )
    assert found
    return int(found[1])


async def seconds_until(seen: Callable[[], Awaitable[bool]]) -> float:
    started = time.monotonic()
    async with asyncio.timeout(5):
        while not await seen():
            await asyncio.sleep(0.02)
    return time.monotonic() - started


@every_route
@plain_and_streamed
@pytest.mark.parametrize("pieces", [(), ("A refund ", "takes ")], ids=["before the first words", "after them"])
async def test_whoever_leaves_ends_the_call_of_the_model(
    fake_service: OpenFake, route: str, stream: bool, pieces: tuple[str, ...]
) -> None:
    chat = Silent(*pieces)
    async with fake_service(chat) as fake:
        caller = await with_a_document(fake)
        async with asking(caller, route, stream=stream):
            await asyncio.wait_for(chat.begun.wait(), 10)
            left_at = time.monotonic()
        while not chat.left_at and time.monotonic() < left_at + 5:
            await asyncio.sleep(0.02)

    assert 0 < chat.left_at - left_at < SOON_S


@every_route
@plain_and_streamed
async def test_whoever_leaves_before_the_first_event_gives_up_the_place_in_the_queue(
    fake_service: OpenFake, route: str, stream: bool
) -> None:
    chat = Silent()
    async with fake_service(chat, answer_concurrency=1, answer_queue=2, answer_tenant_share=1.0) as fake:
        caller = await with_a_document(fake)

        async def in_the_queue() -> bool:
            return await waiting(caller) == 1

        async def nobody() -> bool:
            return await waiting(caller) == 0

        async with asking(caller, "/v1/query", stream=True):
            await asyncio.wait_for(chat.begun.wait(), 10)
            async with asking(caller, route, stream=stream):
                await seconds_until(in_the_queue)
            took_s = await seconds_until(nobody)

    assert took_s < SOON_S
