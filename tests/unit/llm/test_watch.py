"""Limits of waits, and what else may happen to who waits."""

from __future__ import annotations

import asyncio
import time

import pytest

from rag.llm.watch import Watch

pytestmark = pytest.mark.quiet


async def wait(watch: Watch, work_s: float, limit_s: float) -> None:
    await watch.wait(asyncio.sleep(work_s), time.monotonic() + limit_s)


async def test_a_wait_ends_at_its_limit() -> None:
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        await wait(Watch(), 5, 0.05)

    assert 0.05 <= time.monotonic() - started < 0.5


async def test_each_wait_has_its_own_limit_whether_later_or_earlier() -> None:
    watch = Watch()
    for _ in range(4):
        await wait(watch, 0.03, 0.06)  # twice as long in all as one may take
    await wait(watch, 0.01, 5)
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        await wait(watch, 5, 0.05)

    assert time.monotonic() - started < 0.5
    await wait(watch, 0.01, 0.5)  # and what comes after is as ever


async def test_no_one_is_cancelled_between_two_waits() -> None:
    watch = Watch()
    await wait(watch, 0.0, 0.02)

    await asyncio.sleep(0.06)

    await wait(watch, 0.01, 0.5)


async def test_a_limit_that_is_over_ends_the_wait_at_once() -> None:
    with pytest.raises(TimeoutError):
        await wait(Watch(), 5, -1)


async def test_who_cancels_the_task_is_heard_also_at_the_limit() -> None:
    task = asyncio.create_task(wait(Watch(), 5, 0.05))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, task.cancel)

    with pytest.raises((asyncio.CancelledError, TimeoutError)):
        await task
    early = asyncio.create_task(wait(Watch(), 5, 5))
    await asyncio.sleep(0)
    early.cancel()
    with pytest.raises(asyncio.CancelledError):
        await early


async def test_an_outer_timeout_stays_the_outer_one() -> None:
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.03):
            await wait(Watch(), 5, 5)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def test_different_tasks_may_wait_one_after_the_other() -> None:
    watch = Watch()
    await asyncio.create_task(wait(watch, 0.01, 0.5))

    with pytest.raises(TimeoutError):
        await asyncio.create_task(wait(watch, 5, 0.02))


async def test_a_failure_of_what_is_waited_for_comes_through() -> None:
    async def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await Watch().wait(fails(), time.monotonic() + 1)
