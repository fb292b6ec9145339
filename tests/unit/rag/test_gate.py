from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rag.answering.gate import Gate, Limits, Place
from rag.errors import Busy, DeadlineExceeded
from rag.values import Deadline, tenant_id

ONE, TWO, THREE = (tenant_id(name) for name in ("one", "two", "three"))


class Calls(RuleBasedStateMachine):
    """Calls of three tenants come and go in any order, and get their turn, or are turned away."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.gate = Gate(Limits(slots=4, queue=6, tenant_share=0.5))
        self.places: list[Place] = []

    def teardown(self) -> None:
        for place in list(self.places):
            self.gate.leave(place)
        assert (self.gate.running, self.gate.waiting) == (0, 0)
        self.loop.close()

    @rule(tenant=st.sampled_from([ONE, TWO, THREE]), batch=st.booleans())
    def a_call_comes(self, tenant: object, batch: bool) -> None:
        before = list(self.places)

        async def enter() -> None:
            try:
                self.places.append(self.gate.enter(tenant, batch=batch))  # type: ignore[arg-type]
            except Busy:
                of_tenant = [p for p in self.waiting() if p.tenant_id == tenant]
                assert len(self.waiting()) == 6 or len(of_tenant) == 3

        self.loop.run_until_complete(enter())
        turned_away = [p for p in before if p.turn.done() and p.turn.exception()]
        assert len(turned_away) <= 1
        for place in turned_away:  # only by one that matters more, or whose tenant has less
            assert place.batch > batch or place.tenant_id != tenant
            self.places.remove(place)

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def a_call_ends_or_is_cancelled(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.places))
        self.places.remove(place)
        self.gate.leave(place)

    @invariant()
    def nobody_has_more_than_a_share(self) -> None:
        running = Counter(place.tenant_id for place in self.running())
        waiting = Counter(place.tenant_id for place in self.waiting())

        assert (running.total(), waiting.total()) == (self.gate.running, self.gate.waiting)
        assert running.total() <= 4
        assert waiting.total() <= 6
        assert max(running.values(), default=0) <= 2
        assert max(waiting.values(), default=0) <= 3

    @invariant()
    def nobody_waits_for_a_slot_that_is_free(self) -> None:
        running = Counter(place.tenant_id for place in self.running())

        assert len(self.running()) == 4 or all(running[place.tenant_id] == 2 for place in self.waiting())

    def running(self) -> list[Place]:
        return [place for place in self.places if place.running]

    def waiting(self) -> list[Place]:
        return [place for place in self.places if not place.running]


TestCalls = Calls.TestCase


def gate(slots: int, queue: int, share: float = 1.0, wait_s: float = 5.0, ticks: Iterator[float] | None = None) -> Gate:
    ticks = ticks or count(0.0)
    return Gate(Limits(slots, queue, share, wait_s), clock=lambda: next(ticks))


def later() -> Deadline:
    return Deadline.after(5)


async def test_a_free_slot_goes_to_interactive_calls_then_to_the_tenant_with_fewest_then_by_age() -> None:
    door = gate(3, 10)
    held = [door.enter(tenant, batch=False) for tenant in (ONE, ONE, TWO)]
    waiting = {
        "batch": door.enter(THREE, batch=True),
        "of one": door.enter(ONE, batch=False),
        "of two": door.enter(TWO, batch=False),
        "of two, later": door.enter(TWO, batch=False),
    }
    order = []

    for place in [held[2], held[0], held[1], waiting["of two"]]:
        door.leave(place)
        order += [name for name, p in waiting.items() if p.running and name not in order]

    assert order == ["of two", "of one", "of two, later", "batch"]


async def test_who_finds_the_queue_full_is_told_when_to_come_back_by_the_latest_answers() -> None:
    door = gate(2, 1, ticks=iter([0.0, 8.0, 8.0, 20.0]))  # answers of 8 and of 12 seconds
    for _ in range(2):
        async with door.turn(door.enter(ONE, batch=False), later()):
            pass
    for _ in range(3):
        door.enter(ONE, batch=False)

    with pytest.raises(Busy) as refused:
        door.enter(TWO, batch=False)

    assert refused.value.retry_after_s == (8 + 12) / 2 * (1 + 1) / 2


async def test_a_tenant_at_its_share_is_refused_while_others_are_let_in() -> None:
    door = gate(4, 4, share=0.5)
    flood = [door.enter(ONE, batch=False) for _ in range(4)]

    with pytest.raises(Busy):
        door.enter(ONE, batch=False)
    other = [door.enter(TWO, batch=False) for _ in range(2)]

    assert [place.running for place in flood] == [True, True, False, False]
    assert all(place.running for place in other)


async def test_a_full_queue_turns_away_the_newest_call_of_a_batch_for_one_that_somebody_waits_for() -> None:
    door = gate(1, 2)
    held = door.enter(ONE, batch=False)
    older, newer = door.enter(ONE, batch=True), door.enter(ONE, batch=True)

    urgent = door.enter(TWO, batch=False)
    door.leave(held)

    assert urgent.running
    assert isinstance(newer.turn.exception(), Busy)
    assert not older.turn.done()
    with pytest.raises(Busy):
        _ = [door.enter(TWO, batch=True) for _ in range(2)]


async def test_two_tenants_that_fill_the_queue_do_not_lock_out_a_third() -> None:
    door = gate(1, 4, share=0.5)
    for tenant in (ONE, ONE, ONE, TWO, TWO):
        door.enter(tenant, batch=False)

    third = door.enter(THREE, batch=False)

    assert door.waiting == 4
    assert not third.turn.done()


async def test_a_call_that_is_cancelled_while_it_waits_frees_its_place_at_once() -> None:
    door = gate(1, 1)
    held = door.enter(ONE, batch=False)
    waiting = asyncio.create_task(_hold(door))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])

    assert (door.running, door.waiting) == (1, 0)
    next_one = door.enter(TWO, batch=False)
    door.leave(held)
    assert next_one.running


async def test_a_call_that_is_cancelled_as_its_turn_comes_passes_the_slot_on() -> None:
    door = gate(1, 2)
    held = door.enter(ONE, batch=False)
    first, second = asyncio.create_task(_hold(door)), asyncio.create_task(_hold(door))
    await asyncio.sleep(0)

    door.leave(held)
    first.cancel()
    await asyncio.wait([first])

    assert (door.running, door.waiting) == (1, 0)
    second.cancel()
    await asyncio.wait([second])
    assert door.running == 0


async def test_a_wait_that_is_too_long_ends_as_busy_and_one_beyond_the_deadline_as_that() -> None:
    door = gate(1, 2, wait_s=0.05)
    door.enter(ONE, batch=False)

    with pytest.raises(Busy):
        await _hold(door)
    with pytest.raises(DeadlineExceeded):
        await _hold(door, Deadline.after(0.01))

    assert (door.running, door.waiting) == (1, 0)


async def test_without_a_queue_a_call_beyond_the_slots_is_refused() -> None:
    door = gate(1, 0)
    door.enter(ONE, batch=False)

    with pytest.raises(Busy):
        door.enter(TWO, batch=False)


async def _hold(door: Gate, deadline: Deadline | None = None) -> None:
    async with door.turn(door.enter(TWO, batch=False), deadline or later()):
        await asyncio.sleep(60)
