"""The breaker's rules one by one, then all sequences at once as a state machine."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from rag.llm.breaker import Breaker, BreakerLimits, Permit

LIMITS = BreakerLimits()  # 10 calls in 30 s, half of them failures, or 5 in a row; 5 s doubling to 20 s


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(LIMITS, clock=clock)


def permit_of(breaker: Breaker) -> Permit:
    permit = breaker.acquire()
    assert permit is not None
    return permit


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        permit_of(breaker).failure()


def half_open(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 5


def test_five_failures_in_a_row_open_it(breaker: Breaker) -> None:
    fail(breaker, 4)
    before = breaker.state

    fail(breaker, 1)

    assert (before, breaker.state, breaker.acquire()) == ("closed", "open", None)
    assert breaker.opens_in_s() == 5


def test_half_of_ten_calls_within_the_window_open_it(breaker: Breaker) -> None:
    for _ in range(4):
        permit_of(breaker).failure()
        permit_of(breaker).success()
    permit_of(breaker).success()
    before = breaker.state

    permit_of(breaker).failure()  # the fifth of ten

    assert (before, breaker.state) == ("closed", "open")


def test_failures_older_than_the_window_are_forgotten(breaker: Breaker, clock: Clock) -> None:
    for _ in range(4):
        permit_of(breaker).failure()
        permit_of(breaker).success()
    permit_of(breaker).success()
    clock.now += 30.1

    permit_of(breaker).failure()

    assert breaker.state == "closed"


def test_few_calls_are_no_evidence(breaker: Breaker) -> None:
    for _ in range(4):
        permit_of(breaker).blemish()

    assert breaker.state == "closed"  # all failed, but four are not ten


def test_what_one_question_may_explain_opens_it_only_by_its_share(breaker: Breaker) -> None:
    for _ in range(9):
        permit_of(breaker).blemish()
    before = breaker.state

    permit_of(breaker).blemish()

    assert (before, breaker.state) == ("closed", "open")


def test_half_open_lets_one_of_fifty_through(breaker: Breaker, clock: Clock) -> None:
    half_open(breaker, clock)

    permits = [breaker.acquire() for _ in range(50)]

    assert sum(permit is not None for permit in permits) == 1
    assert breaker.state == "half_open"


def test_a_whole_answer_to_the_probe_closes_it(breaker: Breaker, clock: Clock) -> None:
    half_open(breaker, clock)

    permit_of(breaker).success()

    assert breaker.state == "closed"
    fail(breaker, 4)
    assert breaker.state == "closed"


def test_each_failed_probe_doubles_the_time_up_to_twenty_seconds(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    waits = [breaker.opens_in_s()]
    for _ in range(3):
        clock.now += breaker.opens_in_s()
        permit_of(breaker).failure()
        waits.append(breaker.opens_in_s())

    assert waits == [5, 10, 20, 20]


def test_after_a_whole_answer_the_time_begins_anew(breaker: Breaker, clock: Clock) -> None:
    half_open(breaker, clock)
    permit_of(breaker).failure()
    clock.now += 10
    permit_of(breaker).success()

    fail(breaker, 5)

    assert breaker.opens_in_s() == 5


@pytest.mark.parametrize("end", ["success", "failure", "neutral", "lease"])
def test_the_place_of_a_probe_is_free_within_its_lease_however_it_ends(
    breaker: Breaker, clock: Clock, end: str
) -> None:
    half_open(breaker, clock)
    probe = permit_of(breaker)
    assert breaker.acquire() is None

    if end != "lease":  # else its worker died and told nothing
        getattr(probe, end)()
    clock.now += LIMITS.lease_s

    assert breaker.acquire() is not None


def test_a_probe_that_ends_with_a_refused_key_frees_its_place_when_the_disabling_is_over(
    breaker: Breaker, clock: Clock
) -> None:
    half_open(breaker, clock)
    probe = permit_of(breaker)

    breaker.disable(300, "config")
    probe.neutral()
    clock.now += 300

    assert breaker.acquire() is not None


def test_a_probe_whose_answer_has_begun_lets_others_in_on_trial(breaker: Breaker, clock: Clock) -> None:
    half_open(breaker, clock)
    probe = permit_of(breaker)

    probe.answering()
    others = [breaker.acquire() for _ in range(3)]
    probe.failure()

    assert None not in others
    assert (breaker.state, breaker.opens_in_s()) == ("open", 10)


def test_a_verdict_about_the_state_before_changes_nothing(breaker: Breaker, clock: Clock) -> None:
    late = [permit_of(breaker) for _ in range(3)]
    half_open(breaker, clock)

    late[0].success()
    late[1].failure()
    late[2].blemish()

    assert (breaker.state, breaker.opens_in_s()) == ("half_open", 0)


def test_a_second_verdict_changes_nothing(breaker: Breaker) -> None:
    permits = [permit_of(breaker) for _ in range(5)]
    for permit in permits:
        permit.neutral()
        permit.failure()

    assert breaker.state == "closed"


def test_a_longer_rest_wins_over_a_shorter_one_whichever_comes_first(breaker: Breaker, clock: Clock) -> None:
    breaker.rest(3, "rate_limited")
    breaker.rest(30, "rate_limited")
    breaker.rest(1, "rate_limited")

    assert (breaker.state, breaker.opens_in_s()) == ("resting", 30)
    clock.now += 30
    assert breaker.state == "closed"


def test_rests_that_nobody_timed_grow_once_for_all_that_were_under_way(breaker: Breaker, clock: Clock) -> None:
    waits = []
    for _ in range(3):
        for _ in range(10):
            breaker.rest(None, "rate_limited")
        waits.append(breaker.opens_in_s())
        clock.now += breaker.opens_in_s()

    assert waits == [5, 10, 20]


def test_a_rest_is_no_failure(breaker: Breaker, clock: Clock) -> None:
    for _ in range(20):
        permit = permit_of(breaker)
        breaker.rest(1, "rate_limited")
        permit.neutral()
        clock.now += 1

    assert breaker.state == "closed"


def test_what_is_disabled_says_so_and_is_tried_by_one_probe(breaker: Breaker, clock: Clock) -> None:
    breaker.disable(900, "quota")
    state = breaker.state
    clock.now += 900

    permits = [breaker.acquire() for _ in range(5)]

    assert (state, breaker.why) == ("disabled", "quota")
    assert sum(permit is not None for permit in permits) == 1


class AnySequence(RuleBasedStateMachine):
    """Permits are taken, told about and forgotten in any order while time passes."""

    permits = Bundle("permits")

    @initialize()
    def begin(self) -> None:
        self.clock = Clock()
        self.breaker = Breaker(LIMITS, clock=self.clock)
        self.shut_until = 0.0
        self.probe: Permit | None = None
        self.probe_since = 0.0

    def note(self) -> None:
        if self.breaker.state in {"open", "disabled", "resting"}:
            until = self.clock.now + self.breaker.opens_in_s()
            assert self.shut_until <= self.clock.now or until >= self.shut_until - 1e-6
            self.shut_until = until

    @rule(target=permits)
    def acquire(self) -> Permit | None:
        state, admits = self.breaker.state, self.breaker.admits
        permit = self.breaker.acquire()
        assert (permit is not None) == admits
        if state in {"open", "disabled", "resting"}:
            assert permit is None
        if state == "closed":
            assert permit is not None
        if state == "half_open" and permit is not None:
            assert self.probe is None or self.clock.now >= self.probe_since + LIMITS.lease_s
            self.probe, self.probe_since = permit, self.clock.now
        return permit

    @rule(permit=consumes(permits), verdict=st.sampled_from(["success", "failure", "blemish", "neutral"]))
    def tell(self, permit: Permit | None, verdict: str) -> None:
        if permit is None:
            return
        before = self.breaker.state
        was_probe = permit is self.probe
        getattr(permit, verdict)()
        if was_probe:
            self.probe = None
        if before in {"open", "disabled", "resting"} or (before == "half_open" and not was_probe):
            assert self.breaker.state == before
        self.note()

    @rule(permit=permits)
    def answering(self, permit: Permit | None) -> None:
        if permit is not None:
            permit.answering()
            self.probe = None if permit is self.probe else self.probe
            self.note()

    @rule(seconds=st.one_of(st.none(), st.floats(0, 900)))
    def rest(self, seconds: float | None) -> None:
        self.breaker.rest(seconds, "rate_limited")
        self.note()

    @rule(seconds=st.floats(1, 3600))
    def disable(self, seconds: float) -> None:
        self.breaker.disable(seconds, "quota")
        self.probe = None
        self.note()

    @rule(seconds=st.floats(0, 120))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def it_can_always_be_asked_again(self) -> None:
        longest = max(LIMITS.longest_s, LIMITS.lease_s, 3600)
        assert 0 <= self.breaker.opens_in_s() <= longest + 1e-6  # of floats


AnySequence.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestAnySequence = AnySequence.TestCase
