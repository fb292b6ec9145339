"""Asks the targets of a chain until one answers: the answer of one, or the first error, and no mixture of two."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise

from rag.calls import Attempt, Call, ChatRequest, Reply
from rag.llm.attempt import Trial
from rag.llm.course import Course
from rag.llm.failures import Failure
from rag.llm.lanes import Lanes
from rag.llm.policy import RULES, Policy
from rag.llm.retry_purse import RetryPurse
from rag.protocols import ChatModel
from rag.telemetry import Metrics, log


class FailoverChat:
    """A chat model out of several: before the first words a failure is not seen, after them it is an honest error."""

    def __init__(
        self,
        lanes: Lanes,
        extractive: ChatModel,
        metrics: Metrics,
        *,
        policy: Policy | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Go by *lanes*, which may end with *extractive*."""
        self.lanes = lanes
        self._extractive = extractive
        self._metrics = metrics
        self._policy = policy or Policy()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._purse = RetryPurse()

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """The whole reply. Nothing is shown before, so the next target is asked also when an answer broke off."""
        async with aclosing(self._run(request, call, shown=False)) as items:
            async for item in items:
                if isinstance(item, Reply):
                    reply = item
        return reply

    def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """The text of the first target that begins to answer, then the reply.

        Raises UpstreamIncomplete when that text breaks off.
        """
        return self._run(request, call, shown=True)

    async def _run(self, request: ChatRequest, call: Call, *, shown: bool) -> AsyncGenerator[str | Reply, None]:
        route = self.lanes.route(request)
        if call.unpaid is not None:
            route = route.unpaid(call.unpaid)
        course = Course(route, request, call.deadline, policy=self._policy, purse=self._purse, rng=self._rng)
        before = len(call.attempts)
        try:
            while trial := await course.next_trial():
                try:
                    async with aclosing(trial.pieces(call)) as pieces:
                        async for piece in pieces:
                            course.tell_unreached()  # these words came: it is not the network
                            yield piece
                except Failure as failure:
                    _log(trial, failure)
                    course.failed(trial, failure)
                    if shown and trial.text:
                        raise course.broken(failure) from failure
                    continue
                course.answered()
                yield trial.reply(course.degraded(trial.hop))
                return
            course.check()
            degraded = course.degraded(None)
            async with aclosing(self._extractive.stream(request, call)) as items:
                async for item in items:
                    yield replace(item, degraded=degraded) if isinstance(item, Reply) else item
        finally:
            course.tell_unreached()
            self._count(call.attempts[before:])

    def _count(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._metrics.attempts.labels(attempt.target, attempt.reason or attempt.outcome).inc()
            if attempt.first_content_ms is not None:
                self._metrics.first_content.labels(attempt.target).observe(attempt.first_content_ms / 1000)
        for attempt, after in pairwise(attempts):
            if after.target != attempt.target:
                self._metrics.failovers.labels(attempt.target, after.target).inc()


def _log(trial: Trial, failure: Failure) -> None:
    known = {"target": trial.hop.target.name, "reason": failure.reason, "status": failure.status}
    if RULES[failure.reason].verdict == "disable":
        log.error("chat target disabled", detail=failure.detail, **known)
    else:
        log.warning("chat attempt failed", detail=failure.detail, **known)
