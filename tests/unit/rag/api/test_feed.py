from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from rag.api.feed import Feed
from rag.errors import DeadlineExceeded
from rag.waiting import CANCELLING_S

TIMEOUT_S = 0.2


async def stubborn(thaw: asyncio.Event) -> AsyncGenerator[str, None]:
    """Words, and then nothing until *thaw*, as long as it is cancelled only once."""
    yield "A "
    yield "refund"
    with suppress(asyncio.CancelledError):
        await thaw.wait()
    await thaw.wait()


async def test_a_reader_hears_that_time_is_over_from_a_generator_that_cannot_be_stopped() -> None:
    thaw = asyncio.Event()
    feed = Feed(stubborn(thaw), TIMEOUT_S)
    started = time.monotonic()

    items = [await feed.next(), await feed.next()]
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(feed.next(), 10)
    took_s = time.monotonic() - started
    thaw.set()
    await feed.close()

    assert items == ["A ", "refund"]
    assert TIMEOUT_S <= took_s < TIMEOUT_S + CANCELLING_S + 1.0
