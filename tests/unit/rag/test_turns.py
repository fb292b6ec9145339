"""A queue before the real cross-encoder, which has one thread for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from rag.errors import UpstreamError
from rag.inference.onnx import OnnxReranker
from rag.inference.turns import AT_A_TIME, FEWEST, SharedReranker, Turns, asker
from rag.protocols import Score
from rag.values import Deadline, TenantId
from tests.fakes import FakeReranker

pytestmark = pytest.mark.quiet

LATER = Deadline(float("inf"))
A, B, C = (TenantId(UUID(int=n)) for n in (1, 2, 3))
QUESTION = "how is the pump primed?"


@pytest.fixture(scope="module")
def slow(models: Path) -> OnnxReranker:
    return OnnxReranker(models / "reranker_en", 1)


def texts(number: int, sentences: int = 8) -> list[str]:
    return [f"{n}. " + "The pump must be primed with oil before use. " * sentences for n in range(number)]


async def ask(
    reranker: SharedReranker, tenant: TenantId, texts: Sequence[str], deadline: Deadline = LATER
) -> list[Score]:
    asker.set(tenant)
    return await reranker.score(QUESTION, texts, deadline)


def is_scored(scores: Sequence[Score]) -> bool:
    return all(isinstance(score, float) for score in scores)


async def pair_s(reranker: SharedReranker) -> float:
    """What a pair takes now, which *reranker* knows then too."""
    started = time.monotonic()
    await ask(reranker, A, texts(10))
    return (time.monotonic() - started) / 10


async def test_who_would_wait_in_vain_is_told_at_once(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)
    one_s = await pair_s(shared)
    before = [asyncio.create_task(ask(shared, A, texts(15))) for _ in range(4)]
    await asyncio.sleep(0)
    started = time.monotonic()

    scores = await ask(shared, A, texts(20), Deadline.after(20 * one_s))

    assert scores == ["busy"] * 20
    assert time.monotonic() - started < 10 * one_s
    for task in before:
        task.cancel()
    await asyncio.gather(*before, return_exceptions=True)


async def test_the_first_texts_are_scored_if_there_is_time_for_those_alone(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)
    one_s = await pair_s(shared)
    before = asyncio.create_task(ask(shared, A, texts(5)))
    await asyncio.sleep(0)

    scores = await ask(shared, A, texts(60), Deadline.after(25 * one_s))

    scored = [score for score in scores if isinstance(score, float)]
    assert 0 < len(scored) < 60
    assert scores[: len(scored)] == scored
    assert set(scores[len(scored) :]) in ({"busy"}, {"deadline", "busy"})
    assert is_scored(await before)


async def test_under_overload_the_model_is_kept_busy_and_nobody_waits_for_nothing(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)
    deadline_s = 40 * await pair_s(shared)
    until = time.monotonic() + 2 * deadline_s
    waits: dict[bool, list[float]] = {True: [], False: []}

    async def client() -> None:
        while time.monotonic() < until:
            started = time.monotonic()
            scores = await ask(shared, A, texts(20), Deadline.after(deadline_s))
            waits[any(isinstance(score, float) for score in scores)].append(time.monotonic() - started)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(client() for _ in range(16)))

    assert len(waits[True]) >= 2
    assert len(waits[False]) > len(waits[True])
    assert sorted(waits[False])[len(waits[False]) // 2] < deadline_s / 10


async def test_a_tenant_that_comes_late_does_not_wait_for_all_of_anothers_requests(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)
    done: list[TenantId] = []

    async def noting(tenant: TenantId) -> None:
        await ask(shared, tenant, texts(3))
        done.append(tenant)

    tasks = [asyncio.create_task(noting(tenant)) for tenant in (A, A, A, A, A, A, B, B, C)]
    await asyncio.gather(*tasks)

    assert done == [A, A, A, B, C, A, B, A, A]  # two are in the model when B comes; then all take turns


async def test_the_queue_changes_no_score(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)

    found = await asyncio.gather(*(ask(shared, tenant, texts(3)) for tenant in (A, B, C)))

    assert found == [await slow.score(QUESTION, texts(3), LATER)] * 3


async def test_a_request_whose_turn_does_not_come_in_time_has_no_scores_and_holds_up_nobody(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow, clock=lambda: 0.0)  # so that it takes the model for a quick one
    await ask(shared, A, texts(10))
    longer = [asyncio.create_task(ask(shared, A, texts(20, sentences=40))) for _ in range(AT_A_TIME)]
    await asyncio.sleep(0)
    started = time.monotonic()

    late = await ask(shared, B, texts(FEWEST), Deadline.after(0.1))

    assert late == ["busy"] * FEWEST
    assert time.monotonic() - started >= 0.1
    assert all(map(is_scored, await asyncio.gather(*longer)))
    assert await ask(shared, B, texts(2)) == await slow.score(QUESTION, texts(2), LATER)


async def test_who_gives_up_leaves_the_queue(slow: OnnxReranker) -> None:
    shared = SharedReranker(slow)
    first = [asyncio.create_task(ask(shared, A, texts(3))) for _ in range(AT_A_TIME)]
    gone = [asyncio.create_task(ask(shared, B, texts(3))) for _ in range(5)]
    await asyncio.sleep(0)

    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)

    assert is_scored(await ask(shared, C, texts(3)))
    assert all(task.done() for task in first)


async def test_a_model_with_nothing_to_do_is_asked_however_slow_it_was() -> None:
    now = iter(range(0, 10**6, 1000))
    shared = SharedReranker(FakeReranker(), clock=lambda: float(next(now)))  # a thousand seconds a request
    await ask(shared, A, ["pump"] * FEWEST)

    assert is_scored(await ask(shared, A, ["pump"] * FEWEST, Deadline.after(60)))


async def test_a_model_that_fails_frees_its_turn() -> None:
    model = FakeReranker(UpstreamError("503"))
    shared = SharedReranker(model)

    for _ in range(AT_A_TIME + 1):
        with pytest.raises(UpstreamError):
            await ask(shared, A, ["pump"])

    model.error = None
    assert is_scored(await ask(shared, A, ["pump"]))


async def test_who_gives_up_takes_no_time_off_what_the_others_are_measured_by() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    scored, gone = turns.enter(A, 1000), turns.enter(B, 1000)
    now = 90.0
    turns.leave(gone, scored=0)
    now = 100.0
    turns.leave(scored, scored=1000)

    turns.enter(A, 1)

    assert 0 < turns.fitting(B, 100, 2.0) <= 20  # a tenth of a second a pair, one of which is under way


async def test_the_time_in_which_a_model_only_failed_is_not_counted() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    failing = turns.enter(A, 1000)
    for hundred in range(1, 10):
        now = 100.0 * hundred
        before, failing = failing, turns.enter(A, 1000)  # one is always under way
        turns.leave(before, scored=0)
    now = 1000.0
    turns.leave(failing, scored=1000)

    turns.enter(A, 1)

    assert 10 <= turns.fitting(B, 100, 2.0) <= 20
