"""Waits that end: what is not done in time is cancelled, and left alone should that not stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from rag.errors import RagError

T = TypeVar("T")
CANCELLING_S = 1.0  # for the server to hear that nobody waits any more; one that is gone hears nothing


async def in_time(work: Coroutine[Any, Any, T], left_s: Callable[[], float], *, late: Callable[[], RagError]) -> T:
    """What comes of *work*, as long as *left_s* says that seconds are left.

    Raises *late*. Nobody waits then for the work to end, as asyncio.timeout does: the driver of a database that has
    frozen tells it of the cancellation, and waits for it once more.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        if (seconds := left_s()) > 0:
            timer = loop.call_later(seconds, look)
        else:
            _tell(over)

    timer = loop.call_later(left_s(), look)
    task = loop.create_task(_told(work, over))
    try:
        await over
    finally:
        timer.cancel()
        if not task.done():
            let_go([task])
    if not task.done():
        raise late()
    return task.result()


async def _told(work: Coroutine[Any, Any, T], over: asyncio.Future[None]) -> T:
    """What comes of *work*, of which *over* tells: who waits hears a turn of the loop sooner than by its callbacks."""
    try:
        return await work
    finally:
        _tell(over)


def _tell(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def let_go(tasks: Sequence[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Those of *tasks* that still ran, cancelled; what becomes of them is nobody's business."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
        task.add_done_callback(_seen)
    return running


def _seen(task: asyncio.Task[Any]) -> None:
    """Asyncio need not complain that nobody asked what it ended with."""
    if not task.cancelled():
        task.exception()
