from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from rag.errors import DeadlineExceeded, InvalidInput
from rag.values import Deadline
from rag.waiting import in_time

LATE = partial(DeadlineExceeded, "late")


async def test_what_comes_in_time_is_given() -> None:
    assert await in_time(asyncio.sleep(0, "done"), Deadline.after(5).remaining_s, late=LATE) == "done"


async def test_what_fails_in_time_fails() -> None:
    async def failing() -> None:
        raise InvalidInput("no")

    with pytest.raises(InvalidInput, match="no"):
        await in_time(failing(), Deadline.after(5).remaining_s, late=LATE)


async def test_work_that_cannot_be_cancelled_is_left_alone_when_time_is_over() -> None:
    cancelled, thaw, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await thaw.wait()
        except asyncio.CancelledError:
            cancelled.set()
            await thaw.wait()
            ended.set()
            raise

    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="late"):
        await in_time(stubborn(), Deadline.after(0.1).remaining_s, late=LATE)
    took_s = time.monotonic() - started
    await asyncio.wait_for(cancelled.wait(), 1)
    thaw.set()
    await asyncio.wait_for(ended.wait(), 1)

    assert 0.1 <= took_s < 1.0


async def test_whoever_is_cancelled_cancels_the_work() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    waiting = asyncio.create_task(in_time(work(), Deadline.after(60).remaining_s, late=LATE))
    await begun.wait()
    waiting.cancel()

    await asyncio.wait_for(cancelled.wait(), 1)
    assert (await asyncio.gather(waiting, return_exceptions=True)) != [None]
