"""When a target is left alone: a circuit breaker that tries again with one request, not with all that wait."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["closed", "half_open", "open", "resting", "disabled"]
MEANINGS: Mapping[State, str] = {
    "closed": "in use: it gets requests",
    "half_open": "on trial: it failed, and one request at a time tries whether it answers again",
    "open": "failing: it gets no requests for some seconds, then it is tried again",
    "resting": "resting: it asked for fewer requests or the network was gone; it is left alone for the time it named",
    "disabled": "refusing: its key, model or credit is not accepted, which needs you; it is tried again in minutes",
}
SOON_S = 1.0  # by when a probe under way has probably told something


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """What opens a breaker, and for how long; `lease_s` is how long a probe may be silent before another goes."""

    window_s: float = 30.0
    volume: int = 10
    ratio: float = 0.5
    in_a_row: int = 5
    cooldown_s: float = 5.0
    longest_s: float = 20.0  # of an outage of a minute, half a minute later nothing is left
    lease_s: float = 60.0


class Permit:
    """Leave for one attempt. The first verdict counts; one about a state that is over changes nothing."""

    __slots__ = ("_breaker", "_told", "epoch")

    def __init__(self, breaker: Breaker, epoch: int) -> None:
        """Leave by *breaker*, in the state that it counts as *epoch*."""
        self._breaker = breaker
        self._told = False
        self.epoch = epoch

    def answering(self) -> None:
        """The first content came. A probe that long is proof enough to let others in, on trial."""
        if not self._told:
            self._breaker.begin_trial(self)

    def success(self) -> None:
        """The answer is whole."""
        self._tell(self._breaker.succeeded)

    def failure(self) -> None:
        """The target failed."""
        self._tell(self._breaker.failed)

    def blemish(self) -> None:
        """It failed in a way that one odd question explains: counted in the window, not among those in a row."""
        self._tell(self._breaker.blemished)

    def neutral(self) -> None:
        """Nothing is known about the target; the place of a probe is free again."""
        self._tell(self._breaker.left)

    def _tell(self, verdict: Callable[[Permit], None]) -> None:
        if not self._told:
            self._told = True
            verdict(self)


class Breaker:
    """Refuses attempts while a target rests, is disabled or failed too often. It never waits, so it needs no lock."""

    def __init__(self, limits: BreakerLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin closed."""
        self._limits = limits or BreakerLimits()
        self._clock = clock
        self._outcomes: deque[tuple[float, bool]] = deque()
        self._failures = 0
        self._in_a_row = 0
        self._openings = 0  # since the last whole answer
        self._rests = 0
        self._epoch = 0  # a permit of an earlier one tells nothing about the state of now
        self._open_until: float | None = None  # None is closed; in the past is half-open
        self._rest_until = -math.inf
        self._disabled = False
        self._probe: Permit | None = None
        self._lease_until = -math.inf
        self.why = ""

    @property
    def state(self) -> State:
        """The state of this moment."""
        now = self._clock()
        if self._open_until is not None and now < self._open_until:
            return "disabled" if self._disabled else "open"
        if now < self._rest_until:
            return "resting"
        return "closed" if self._open_until is None else "half_open"

    @property
    def admits(self) -> bool:
        """Whether `acquire` would give a permit now."""
        return self.opens_in_s() == 0

    def opens_in_s(self) -> float:
        """Seconds until an attempt may be admitted."""
        now = self._clock()
        closed_for = max(self._rest_until, -math.inf if self._open_until is None else self._open_until) - now
        if closed_for > 0:
            return closed_for
        taken = self._open_until is not None and self._probe is not None and now < self._lease_until
        return min(SOON_S, self._lease_until - now) if taken else 0.0

    def acquire(self) -> Permit | None:
        """Leave for one attempt, or None. Half-open it is given once, until the probe has told or its lease is over."""
        if not self.admits:
            return None
        permit = Permit(self, self._epoch)
        if self._open_until is not None:
            self._probe, self._lease_until = permit, self._clock() + self._limits.lease_s
        return permit

    def rest(self, seconds: float | None, why: str) -> None:
        """Ask nothing for *seconds*, or longer each time when nobody said how long; that is no failure."""
        now = self._clock()
        if seconds is None:
            if now < self._rest_until:  # one rest for all that were under way, so it grows once
                return
            seconds = min(self._limits.cooldown_s * 2**self._rests, self._limits.longest_s)
            self._rests = min(self._rests + 1, 16)
        self._rest_until = max(self._rest_until, now + seconds)
        self.why = why

    def disable(self, seconds: float, why: str) -> None:
        """Ask nothing for *seconds*, then by a probe: whoever has no credit, or refuses our key, will not have soon."""
        self._shut(seconds, why)
        self._disabled = True

    def begin_trial(self, permit: Permit) -> None:
        """Close for the probe *permit*, so that one failure opens again, and for longer."""
        if permit is self._probe:
            self._close()
            self._in_a_row = self._limits.in_a_row - 1
            permit.epoch = self._epoch

    def succeeded(self, permit: Permit) -> None:
        """Count a whole answer."""
        if permit is self._probe:
            self._close()
            permit.epoch = self._epoch
        if permit.epoch == self._epoch and self._open_until is None:
            self._count(ok=True)
            self._in_a_row = self._openings = self._rests = 0

    def failed(self, permit: Permit) -> None:
        """Count a failure, and open when there were too many."""
        if permit is self._probe:
            self._open()
        elif permit.epoch == self._epoch and self._open_until is None:
            self._in_a_row += 1
            self._count(ok=False)
            if self._in_a_row >= self._limits.in_a_row or self._too_many():
                self._open()

    def blemished(self, permit: Permit) -> None:
        """Count a failure in the window alone."""
        if permit is self._probe:
            self._probe = None
        elif permit.epoch == self._epoch and self._open_until is None:
            self._count(ok=False)
            if self._too_many():
                self._open()

    def left(self, permit: Permit) -> None:
        """Free the place of a probe."""
        if permit is self._probe:
            self._probe = None

    def _open(self) -> None:
        cooldown_s = min(self._limits.cooldown_s * 2**self._openings, self._limits.longest_s)
        self._openings = min(self._openings + 1, 16)
        self._shut(cooldown_s, "failing")
        self._disabled = False

    def _shut(self, seconds: float, why: str) -> None:
        until = self._clock() + seconds
        self._open_until = until if self._open_until is None else max(self._open_until, until)
        self.why = why
        self._begin_epoch()

    def _close(self) -> None:
        self._open_until = None
        self._disabled = False
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._probe = None
        self._in_a_row = 0
        self._outcomes.clear()
        self._failures = 0

    def _count(self, *, ok: bool) -> None:
        now = self._clock()
        self._outcomes.append((now, ok))
        self._failures += not ok
        while self._outcomes[0][0] < now - self._limits.window_s:
            self._failures -= not self._outcomes.popleft()[1]

    def _too_many(self) -> bool:
        calls = len(self._outcomes)
        return calls >= self._limits.volume and self._failures >= self._limits.ratio * calls
