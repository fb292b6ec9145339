"""Work for a caller who may leave at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

from fastapi import Request

from rag.api.limits import within

T = TypeVar("T")
LOOK_EVERY_S = 0.2  # whether the caller is still there
AHEAD = 2  # items made before they are asked for


async def unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of *work*; None when the caller leaves first, which ends it."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_EVERY_S)
            if not task.done() and await request.is_disconnected():
                return None
        return task.result()
    finally:
        await _ended(task)


class Feed(Generic[T]):
    """The items of a generator, all made in one task, whichever tasks read them: its time limits are bound to it."""

    def __init__(self, items: AsyncGenerator[T, None], timeout_s: float) -> None:
        """Begin with the first; all must be made within *timeout_s*."""
        self._items = items
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(AHEAD)
        self._made: asyncio.Queue[T | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._make())
        self._task.add_done_callback(lambda _: self._made.put_nowait(None))

    async def next(self) -> T | None:
        """The next item; None after the last.

        Raises what the generator raises, and DeadlineExceeded.
        """
        item = await self._made.get()
        if item is None:
            self._task.result()
        self._room.release()
        return item

    async def close(self) -> None:
        """End the generator, wherever it is."""
        await _ended(self._task)

    async def _make(self) -> None:
        async with within(self._timeout_s), aclosing(self._items):
            async for item in self._items:
                await self._room.acquire()
                self._made.put_nowait(item)


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task})
    if task.done() and not task.cancelled():
        task.exception()  # it was seen, or nobody is there to see it
