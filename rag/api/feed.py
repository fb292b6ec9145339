"""Answers for a caller who may leave at any moment."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rag.answering.prompting import ALONE, Talk
from rag.api.limits import too_late
from rag.api.problems import problem_of
from rag.calls import Answer
from rag.errors import RagError, UpstreamIncomplete
from rag.telemetry import log
from rag.values import Deadline, Passage, Principal, Question
from rag.waiting import CANCELLING_S
from rag.wiring import Services

T = TypeVar("T")
Item = Sequence[Passage] | str | Answer
LOOK_EVERY_S = 0.2  # whether the caller is still there
AHEAD = 2  # items made before they are asked for
PING_S = 15  # proxies drop connections that are silent for longer
STOPPING_S = 7.0  # for running answers once the process is to stop; containers are killed after 10 s
SAYING_S = 1.5  # for the last event of those that are not whole by then
CALLER_LEFT = 499  # nobody reads it but the log


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of somebody, as every route has it answered."""

    services: Services
    who: Principal
    question: Question
    max_tokens: int
    talk: Talk = ALONE

    async def answer(self, request: Request) -> Answer | None:
        """The whole answer; None when the caller has left."""
        return await unless_left(request, self._answer())

    async def stream(
        self,
        request: Request,
        begun: int,
        *,
        shown: Callable[[Item], Iterator[ServerSentEvent]],
        failed: Callable[[dict[str, object]], ServerSentEvent],
    ) -> Response:
        """The answer as the events that its items, or a failure's problem, are shown as.

        What fails before the first *begun* items raises: it has its own status.
        """
        feed = Feed(self._items(), self.services.settings.request_timeout_s)
        here = None
        try:
            here = await unless_left(request, feed.begin(begun))
        finally:
            if here is None:
                await feed.close()
        return _Stream(_events(feed, shown, failed), feed) if here else Response(status_code=CALLER_LEFT)

    async def _answer(self) -> Answer:
        timeout_s = self.services.settings.request_timeout_s
        answer = await self.services.answerer.answer(
            self.who, self.question, max_tokens=self.max_tokens, deadline=Deadline.after(timeout_s), talk=self.talk
        )
        self._count(answer)
        return answer

    async def _items(self) -> AsyncGenerator[Item, None]:
        deadline = Deadline.after(self.services.settings.request_timeout_s)
        items = self.services.answerer.stream(
            self.who, self.question, max_tokens=self.max_tokens, deadline=deadline, talk=self.talk
        )
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Answer):
                    self._count(item)
                yield item

    def _count(self, answer: Answer) -> None:
        metrics = self.services.metrics
        metrics.answers.labels(answer.status).inc()
        metrics.cached.labels(answer.cache).inc()
        metrics.observe_stages(answer.retrieval.timings_ms)


class _Stream(EventSourceResponse):
    """Events, after which, or without which, their feed is closed; when the process is to stop, they end soon."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], feed: Feed[Item]) -> None:
        self._stopping = anyio.Event()
        super().__init__(
            events, ping=PING_S, shutdown_event=self._stopping, shutdown_grace_period=STOPPING_S + SAYING_S
        )
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopped = asyncio.create_task(self._stop())
        try:
            await super().__call__(scope, receive, send)
        finally:
            await _ended(stopped)
            await self._feed.close()

    async def _stop(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(STOPPING_S)
        self._feed.break_off(UpstreamIncomplete("the service was stopped before the answer was whole; ask again"))


async def _events(
    feed: Feed[Item],
    shown: Callable[[Item], Iterator[ServerSentEvent]],
    failed: Callable[[dict[str, object]], ServerSentEvent],
) -> AsyncIterator[ServerSentEvent]:
    try:
        while (item := await feed.next()) is not None:
            for event in shown(item):
                yield event
    except RagError as exc:
        log.error("stream failed", code=exc.code, detail=exc.detail)
        yield failed(problem_of(exc))


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
        self._room = asyncio.Semaphore(AHEAD)
        self._made: asyncio.Queue[T | None] = asyncio.Queue()
        self._begun: deque[T] = deque()
        self._broken: RagError | None = None
        self._task = asyncio.create_task(self._make())
        self._task.add_done_callback(lambda _: self._made.put_nowait(None))
        late = asyncio.get_running_loop().call_later(timeout_s, self.break_off, too_late(timeout_s))
        self._task.add_done_callback(lambda _: late.cancel())

    async def begin(self, items: int) -> bool:
        """True, once the first *items* are made, or all; `next` gives them all the same.

        Raises as `next` does.
        """
        begun = [await self._next() for _ in range(items)]
        self._begun.extend(item for item in begun if item is not None)
        return True

    async def next(self) -> T | None:
        """The next item; None after the last.

        Raises what the generator raises, and DeadlineExceeded.
        """
        return self._begun.popleft() if self._begun else await self._next()

    def break_off(self, why: RagError) -> None:
        """Have `next` raise *why* after what is made already, unless that is all."""
        self._broken = why
        self._task.cancel()
        # where that does not stop it, as while a database is frozen, it is left alone
        asyncio.get_running_loop().call_later(CANCELLING_S, self._made.put_nowait, None)

    async def close(self) -> None:
        """End the generator, wherever it is."""
        await _ended(self._task)

    async def _next(self) -> T | None:
        item = await self._made.get()
        if item is None:
            if self._broken is not None and not self._task.done():
                raise self._broken
            self._task.result()
        self._room.release()
        return item

    async def _make(self) -> None:
        try:
            async with aclosing(self._items):
                async for item in self._items:
                    await self._room.acquire()
                    self._made.put_nowait(item)
        except asyncio.CancelledError:
            if self._broken is None:
                raise
            raise self._broken from None


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task})
    if task.done() and not task.cancelled():
        task.exception()  # it was seen, or nobody is there to see it
