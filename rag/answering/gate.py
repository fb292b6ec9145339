"""Who may answer now, who waits, and who is turned away: slots and a bounded queue, shared among tenants."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from rag.errors import Busy, DeadlineExceeded
from rag.values import Deadline, TenantId

RECENT = 32  # answers whose times say how long the next will take
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many answers are made at once, how many more wait and how long, and a tenant's share of both."""

    slots: int
    queue: int
    tenant_share: float = 1.0
    wait_s: float = 10.0

    @property
    def tenant_slots(self) -> int:
        """The answers of one tenant at once, at least one."""
        return max(1, int(self.slots * self.tenant_share))

    @property
    def tenant_queue(self) -> int:
        """The answers of one tenant that wait."""
        return min(self.queue, max(1, int(self.queue * self.tenant_share)))


@dataclass(slots=True, eq=False)
class Place:
    """One call's place: in the queue until `turn` is done, then in a slot."""

    tenant_id: TenantId
    batch: bool
    number: int
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    running: bool = False


class Gate:
    """Slots and a queue. A tenant never has more than its share, so another's call finds room at once.

    A free slot goes to an interactive call before one of a batch, then to the tenant that has the fewest slots, then
    to the call that came first.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep to *limits*; *clock* times the answers, for the estimate of when to come back."""
        self.limits = limits
        self._clock = clock
        self._numbers = count()
        self._waiting: list[Place] = []  # in the order they came
        self._running: Counter[TenantId] = Counter()
        self._recent: deque[float] = deque(maxlen=RECENT)

    @property
    def running(self) -> int:
        """The answers being made."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """The answers that wait for a slot."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, place: Place, deadline: Deadline) -> AsyncIterator[None]:
        """The place's slot for the block, once it is free; then the place is left.

        Raises Busy when it was turned away or waited too long, DeadlineExceeded when the time is over.
        """
        try:
            await self._wait(place, deadline)
            began = self._clock()
            try:
                yield
            finally:
                self._recent.append(self._clock() - began)
        finally:
            self.leave(place)

    def enter(self, tenant_id: TenantId, *, batch: bool) -> Place:
        """A place, in a slot if one is free for the tenant.

        Raises Busy when the queue, or the tenant's share of it, is full. Then a call of a batch makes room for one that
        is not, and the tenant with the most calls in the queue for one with fewer: its newest call is turned away.
        """
        place = Place(tenant_id, batch, next(self._numbers))
        self._waiting.append(place)
        self._admit()
        if crowd := self._crowd(tenant_id):
            waiting = Counter(p.tenant_id for p in crowd)
            self._refuse(max(crowd, key=lambda p: (p.batch, waiting[p.tenant_id], p.number)))
            if place.turn.done() and not place.running:
                place.turn.result()
        return place

    def leave(self, place: Place) -> None:
        """Free the place, in whichever state it is, for the next; once more changes nothing."""
        if place.running:
            place.running = False
            self._running[place.tenant_id] -= 1
            if not self._running[place.tenant_id]:
                del self._running[place.tenant_id]
            self._admit()
        elif place in self._waiting:
            self._waiting.remove(place)
        if not place.turn.cancel() and not place.turn.cancelled():
            place.turn.exception()  # who was turned away and cancelled at once never looks

    async def _wait(self, place: Place, deadline: Deadline) -> None:
        try:
            async with asyncio.timeout(min(self.limits.wait_s, deadline.remaining_s())):
                await place.turn
        except TimeoutError as exc:
            if not deadline.remaining_s():
                raise DeadlineExceeded("the time for this answer went by while it waited for its turn") from exc
            raise self._busy(place.tenant_id) from exc

    def _admit(self) -> None:
        while self.running < self.limits.slots and (place := self._next()):
            self._waiting.remove(place)
            self._running[place.tenant_id] += 1
            place.running = True
            if not place.turn.done():
                place.turn.set_result(None)

    def _next(self) -> Place | None:
        may = [place for place in self._waiting if self._running[place.tenant_id] < self.limits.tenant_slots]
        return min(may, key=lambda p: (p.batch, self._running[p.tenant_id], p.number), default=None)

    def _crowd(self, tenant_id: TenantId) -> list[Place]:
        """The calls of which one is too many: those of the tenant, or all."""
        own = [place for place in self._waiting if place.tenant_id == tenant_id]
        if len(own) > self.limits.tenant_queue:
            return own
        return self._waiting if len(self._waiting) > self.limits.queue else []

    def _refuse(self, place: Place) -> None:
        self._waiting.remove(place)
        if not place.turn.done():  # cancelled, and not yet told
            place.turn.set_exception(self._busy(place.tenant_id))

    def _busy(self, tenant_id: TenantId) -> Busy:
        """With the time by which the calls that wait before a new one should be done."""
        own = sum(place.tenant_id == tenant_id for place in self._waiting)
        mean_s = sum(self._recent) / len(self._recent) if self._recent else FIRST_RETRY_S
        rounds = max((len(self._waiting) + 1) / self.limits.slots, (own + 1) / self.limits.tenant_slots)
        return Busy(retry_after_s=min(LONGEST_RETRY_S, max(FIRST_RETRY_S, mean_s * rounds)))
