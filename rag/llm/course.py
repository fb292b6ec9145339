"""The course of one request through its targets: what was tried, what comes next, and what is said in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from urllib.parse import urlsplit

from rag.calls import ChatRequest, Degraded
from rag.errors import (
    ContentFiltered,
    DeadlineExceeded,
    NoNetwork,
    RagError,
    Tried,
    UpstreamError,
    UpstreamIncomplete,
    UpstreamRateLimited,
    UpstreamUnavailable,
)
from rag.llm.attempt import OutOfTime, Trial, reason_of
from rag.llm.breaker import Permit
from rag.llm.failures import Failure
from rag.llm.hop import Hop
from rag.llm.lanes import Route
from rag.llm.policy import COUNTED, RULES, SLOW, Policy, backoff_s, tell
from rag.llm.reasons import Skip, away, sentence, skipped
from rag.llm.retry_purse import RetryPurse
from rag.values import Deadline

AHEAD_S = 0.05  # of the caller's own clock, so that it is we who say what happened
PASSING = (UpstreamUnavailable, UpstreamRateLimited)  # errors that say when to come back


class Course:
    """Retries and fallback of one request. Both are bounded, by number and by one deadline."""

    def __init__(
        self, route: Route, request: ChatRequest, deadline: Deadline, *, policy: Policy, purse: RetryPurse,
        rng: random.Random,
    ) -> None:  # fmt: skip
        """Begin before the first target of *route*."""
        self.route = route
        self._request = request
        self._policy = policy
        self._purse = purse
        self._rng = rng
        left_s = deadline.remaining_s()
        kept_s = min(policy.kept_for_sentences_s, left_s / 5) if route.extractive else min(AHEAD_S, left_s / 20)
        self._until = time.monotonic() + left_s - kept_s
        self._waiting = list(route.hops)
        self._again: tuple[Hop, float] | None = None
        self._tries: Counter[Hop] = Counter()
        self._failures: list[Failure] = []
        self._tried: list[Tried] = []
        self._skipped = list(route.skipped)
        self._unreached: list[tuple[Hop, Permit]] = []
        self._no_network = False
        self._over = False  # no other model may be asked, not even the extractive one

    async def next_trial(self) -> Trial | None:
        """The next attempt, after the wait that it needs; None when there is none left to make."""
        if self._again is not None:
            (hop, wait_s), self._again = self._again, None
            await asyncio.sleep(wait_s)
            if permit := hop.breaker.acquire():
                return self._trial(hop, permit)
        while self._waiting and self._tries.total() < self._policy.tries and self._in_time(0.0):
            hop = self._waiting.pop(0)
            if len(self._tries) >= self._policy.targets:
                self._skipped.append(skipped(hop, "attempts"))
            elif permit := hop.breaker.acquire():
                return self._trial(hop, permit)
            else:
                self._skipped.append(away(hop))
        self._skip(self._waiting, "deadline" if self._tries.total() < self._policy.tries else "attempts")
        return None

    def answered(self) -> None:
        """Count a whole answer."""
        if self._tries.total() == 1:
            self._purse.earn()

    def failed(self, trial: Trial, failure: Failure) -> None:
        """Count the failure of *trial*, tell the breaker, and decide what comes next."""
        hop = trial.hop
        self._failures.append(failure)
        self._tried.append(Tried(hop.target.name, reason_of(failure), trial.ms))
        if failure.slow if isinstance(failure, OutOfTime) else RULES[failure.reason].verdict in COUNTED:
            hop.last_failure = reason_of(failure)
        if isinstance(failure, OutOfTime):
            (trial.permit.failure if failure.slow else trial.permit.neutral)()
            self._skip(self._waiting, "deadline")
            return
        if failure.reason == "connect":  # the network itself may be down: told when another target was reached, or not
            self._unreached.append((hop, trial.permit))
        else:
            tell(hop, trial.permit, failure, self._policy)
        self._decide(hop, failure)

    def tell_unreached(self) -> None:
        """Tell the breakers of the targets that could not be reached; all of several at once is the network's fault."""
        if not self._unreached:
            return
        hosts = {urlsplit(hop.target.url).netloc for hop, _ in self._unreached}
        self._no_network = len(hosts) > 1 and len(self._unreached) == self._tries.total()
        for hop, permit in self._unreached:
            if self._no_network:
                hop.breaker.rest(self._policy.no_network_s, "network")
                permit.neutral()
            else:
                permit.failure()
        self._unreached.clear()

    def check(self) -> None:
        """Raise the error that ends the request, unless the extractive model may still answer it."""
        self.tell_unreached()
        if self._over or not self.route.extractive:
            raise self.error()

    def error(self) -> RagError:
        """The first failure in the caller's terms; what nobody was asked for, by what keeps the first target away."""
        if self.route.refusal is not None:
            return self.route.refusal
        if self._no_network:
            return NoNetwork(retry_after_s=self._policy.no_network_s, tried=self._what_became())
        if self._failures:
            first = self._failures[0]
            return self._late() if isinstance(first, OutOfTime) else self._said(RULES[first.reason].error)
        shut = [hop for hop in self.route.hops if not hop.breaker.admits]
        if not shut:
            return self._late()
        why = min(shut, key=lambda hop: hop.breaker.opens_in_s()).breaker.why
        known = next((rule.error for reason, rule in RULES.items() if reason == why), UpstreamUnavailable)
        return self._said(NoNetwork if why == "network" else known)

    def broken(self, failure: Failure) -> RagError:
        """What is said after the first words: a cut answer is no answer, whatever cut it."""
        if isinstance(failure, OutOfTime):
            return self._late()
        return self._said(ContentFiltered if failure.reason == "content_filtered" else UpstreamIncomplete)

    def degraded(self, hop: Hop | None) -> Degraded | None:
        """Why *hop* answered, None being the extractive model; None when it is no lesser one than the first."""
        first = self.route.first
        if first is None or not self.route.degraded(hop):
            return None
        tried, refusal = self._what_became(), self.route.refusal
        if refusal is not None:
            return Degraded("budget", refusal.detail, tried, refusal.retry_after_s, refusal.resets_at)
        cause = next((each for each in tried if each.target == first.target.name), tried[0])
        # who is not fit for the request stays so, whatever the breaker says
        opens_in_s = 0.0 if cause in self.route.skipped else first.breaker.opens_in_s()
        return Degraded(cause.reason, sentence(cause), tried, opens_in_s or None)

    def _what_became(self) -> tuple[Tried, ...]:
        """A line for each attempt that failed, then one for each target that was not asked and should have been."""
        known = {hop.target.name for hop in self._tries} | {each.target for each in self._skipped}
        late = (skipped(hop, "overflow") for hop in self.route.passed_by if hop.target.name not in known)
        return (*self._tried, *self._skipped, *late)

    def _said(self, kind: type[UpstreamError]) -> UpstreamError:
        opens_in_s = min((hop.breaker.opens_in_s() for hop in self.route.hops), default=0.0)
        retry_after_s = max(1.0, opens_in_s) if issubclass(kind, PASSING) else None
        return kind(retry_after_s=retry_after_s, tried=self._what_became())

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(tried=self._what_became())

    def _skip(self, hops: list[Hop], why: Skip) -> None:
        """Ask none of *hops*, which are among those that wait."""
        self._skipped += [skipped(hop, why) for hop in hops]
        self._waiting = [hop for hop in self._waiting if hop not in hops]

    def _trial(self, hop: Hop, permit: Permit) -> Trial:
        self._tries[hop] += 1
        return Trial(hop, permit, self._request, until=self._until, silence=self._policy.silent_times_idle)

    def _decide(self, hop: Hop, failure: Failure) -> None:
        rule = RULES[failure.reason]
        if rule.onward == "never":
            self._over = True
            self._waiting.clear()
        elif rule.onward == "to a larger one":
            tokens = hop.target.context_tokens
            self._skip([other for other in self._waiting if other.target.context_tokens <= tokens], "context_length")
        wait_s = self._wait_s(hop, failure)
        if wait_s is not None and self._in_time(wait_s) and self._purse.take(after_timeout=failure.reason in SLOW):
            self._again = hop, wait_s

    def _wait_s(self, hop: Hop, failure: Failure) -> float | None:
        """Seconds after which the same target may be asked again; None is not at all."""
        again = RULES[failure.reason].again
        if again == "never" or self._tries[hop] >= self._policy.tries_per_target:
            return None
        if self._tries.total() >= self._policy.tries:
            return None
        if again != "once" and any(other.breaker.admits for other in self._waiting):
            return None
        if failure.reason == "connect" and len({other for other, _ in self._unreached}) > 1:
            return None
        jitter_s = backoff_s(self._policy, self._tries[hop], rng=self._rng)
        if again != "after the hint":
            return jitter_s
        hint_s = failure.retry_after_s
        if not hint_s or failure.retry_after_guessed or hint_s > self._policy.wait_cap_s:
            return None
        return hint_s + jitter_s

    def _in_time(self, wait_s: float) -> bool:
        return time.monotonic() + wait_s + self._policy.least_useful_s < self._until
