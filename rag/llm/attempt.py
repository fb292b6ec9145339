"""One attempt at one target: its limits, what came of it, and the line it leaves behind."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from rag.calls import (
    NO_TOKENS,
    Attempt,
    Call,
    ChatRequest,
    Degraded,
    Finish,
    Outcome,
    Reply,
    Usage,
    prompt_tokens,
    tokens_of,
)
from rag.llm.breaker import Permit
from rag.llm.events import End, Event, Text, UsageSeen
from rag.llm.failures import Failure, Reason
from rag.llm.hop import Hop
from rag.llm.watch import Watch

REFUSED = 300  # statuses from here on come instead of an answer
REFUSALS: frozenset[Reason] = frozenset(  # the same, when they are the first event of a 200
    {"connect", "rate_limited", "quota", "config", "server_error", "overloaded", "conflict", "rejected",
     "context_length"}
)  # fmt: skip
SLOW_SHARE = 0.5  # of its own limit: who was silent for so long when the caller's time ended had a part in it


class OutOfTime(Failure):
    """The caller's time was over before the target's own limit: no fault of the target, unless it was `slow`."""

    def __init__(self, *, slow: bool) -> None:
        super().__init__("timeout", "the time for the whole request is over")
        self.slow = slow


class Trial:
    """An attempt under way. It is never used again: what one attempt saw must not leak into the next."""

    def __init__(self, hop: Hop, permit: Permit, request: ChatRequest, *, until: float, silence: float) -> None:
        """Ask *hop* until the moment *until*; text may pause for *silence* idle limits while the provider pings."""
        self.hop = hop
        self.permit = permit
        self.text: list[str] = []
        self._watch = Watch()
        self._request = request
        self._until = until
        self._silence = silence
        self._finish: Finish = "stop"
        self._usage: Usage | None = None
        self._heard = False
        self._started = self._last_event = self._last_text = time.monotonic()
        self._first_content_ms: float | None = None

    async def pieces(self, call: Call) -> AsyncGenerator[str, None]:
        """The text as it comes, until the provider says that it is whole; the attempt is in *call* then.

        Raises Failure. Closed or cancelled, it leaves the provider at once.
        """
        outcome: Outcome = "cancelled"
        failure: Failure | None = None
        self.hop.under_way += 1
        try:
            async with aclosing(self.hop.endpoint.events(self._request)) as events:
                while not isinstance(event := await self._next(events), End):
                    if isinstance(event, Text):
                        self._note(event.text)
                        yield event.text
                    elif isinstance(event, UsageSeen):
                        self._usage = event.usage
            self._end(event)
            outcome = "answered"
        except Failure as exc:
            failure = exc
            outcome = "partial" if self.text else "failed"
            raise
        finally:
            self._watch.stop()
            self.hop.under_way -= 1
            call.attempts.append(self._attempt(len(call.attempts) + 1, outcome, failure))
            if failure is None:  # else whoever catches it tells: it depends on the other targets
                (self.permit.success if outcome == "answered" else self.permit.neutral)()

    def reply(self, degraded: Degraded | None) -> Reply:
        """The whole answer, once there is one."""
        target = self.hop.target
        usage = self._counted("answered", None)
        return Reply("".join(self.text), target.name, target.model, usage, self._finish, degraded=degraded)

    @property
    def ms(self) -> float:
        """Milliseconds since it began."""
        return (time.monotonic() - self._started) * 1000

    def _note(self, text: str) -> None:
        if not self.text:
            self._first_content_ms = self.ms
            self.permit.answering()
        self._last_text = self._last_event
        self.text.append(text)

    def _end(self, end: End) -> None:
        self._finish, self._usage = end.finish, end.usage
        if end.finish == "stop" and not any(map(str.strip, self.text)):
            raise Failure("empty", usage=end.usage)

    async def _next(self, events: AsyncGenerator[Event, None]) -> Event:
        limit = self._limit()
        try:
            event = await self._watch.wait(anext(events, None), min(limit, self._until))
        except TimeoutError:
            raise self._too_late(limit) from None
        if event is None:
            raise Failure("incomplete", "the stream ended and did not say that it is whole")
        self._heard = True
        self._last_event = time.monotonic()
        return event

    def _limit(self) -> float:
        """The moment until which the target may be silent."""
        target = self.hop.target
        if not self.text:
            return self._started + target.first_content_timeout_s
        silent = self._last_text + self._silence * target.idle_timeout_s
        return min(self._last_event + target.idle_timeout_s, silent)

    def _too_late(self, limit: float) -> Failure:
        if limit <= self._until:
            return Failure("idle_timeout" if self.text else "first_content_timeout")
        since = self._last_event if self.text else self._started
        return OutOfTime(slow=self._until - since >= SLOW_SHARE * (limit - since))

    def _attempt(self, number: int, outcome: Outcome, failure: Failure | None) -> Attempt:
        target = self.hop.target
        return Attempt(
            number=number,
            target=target.name,
            model=target.model,
            outcome=outcome,
            usage=self._counted(outcome, failure),
            reason=reason_of(failure) if failure else "",
            first_content_ms=self._first_content_ms,
            total_ms=self.ms,
        )

    def _counted(self, outcome: Outcome, failure: Failure | None) -> Usage:
        """What the provider counted; where it did not say, our estimate of what came, within what was asked for."""
        known = (failure.usage if failure else None) or self._usage
        if known is None:
            if failure and not self._heard and _refused(failure):
                return NO_TOKENS
            known = Usage()
        # our measure is an upper bound, and the provider kept to the limit that it was given
        written = min(tokens_of("".join(self.text)), self._request.max_tokens)
        # a count that came with the first words of a broken answer is of those alone
        short = known.output is None or (outcome != "answered" and known.output < written)
        if known.input_uncached is not None and not short:
            return known
        unsaid = max(prompt_tokens(self._request.messages) - (known.input or 0), 0)
        return replace(
            known,
            input_uncached=unsaid if known.input_uncached is None else known.input_uncached,
            output=written if short else known.output,
            estimated=True,
        )


def _refused(failure: Failure) -> bool:
    """Whether a failure that came before all else says that nothing was read."""
    if failure.status is None:  # whatever broke it off once it was sent, the prompt may have been read
        return failure.reason == "connect"
    return failure.reason in REFUSALS or failure.status >= REFUSED


def reason_of(failure: Failure) -> str:
    """The failure's class in the ledger; the end of the caller's time is one of its own."""
    return "deadline" if isinstance(failure, OutOfTime) else failure.reason
