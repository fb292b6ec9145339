"""Providers in memory that do at each hit what a script says."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

import pytest

from rag.calls import Attempt, Call, ChatRequest, Message, Reply, Usage
from rag.errors import RagError
from rag.llm.breaker import Breaker, BreakerLimits
from rag.llm.events import Alive, End, Event, Text
from rag.llm.failover import FailoverChat
from rag.llm.failures import Failure
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.llm.policy import Policy
from rag.settings import Target
from rag.telemetry import Metrics
from rag.values import Deadline, TenantId
from tests.fakes import StreamedChat

USAGE = Usage(input_uncached=40, output=2)
OK: tuple[Any, ...] = (Alive(), Text("Five "), Text("days. [1]"), End("stop", USAGE))
TENTH = Policy(
    least_useful_s=0.02, kept_for_sentences_s=0.1, backoff_s=0.025, backoff_cap_s=0.4, wait_cap_s=0.5, no_network_s=0.1
)
QUICK = BreakerLimits(cooldown_s=0.5, longest_s=6.0, lease_s=6.0)
SECRET = "the question that nobody else reads"


class Scripted:
    """A target: the first script at the first hit, and the last again and again. A number in it is a pause."""

    def __init__(self, name: str, *scripts: Sequence[Any], **target: Any) -> None:
        facts: dict[str, Any] = {
            "name": name, "dialect": "openai", "url": f"http://{name}.example", "model": f"{name}-model",
            "first_content_timeout_s": 0.3, "idle_timeout_s": 0.3, **target,
        }  # fmt: skip
        self.target = Target(**facts)
        self.scripts = scripts or (OK,)
        self.hits: list[float] = []
        self.closed = 0

    async def events(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self.hits.append(time.monotonic())
        script = self.scripts[min(len(self.hits), len(self.scripts)) - 1]
        try:
            for step in script:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                elif isinstance(step, Failure):
                    raise Failure(
                        step.reason, step.detail, retry_after_s=step.retry_after_s, usage=step.usage,
                        status=step.status, retry_after_guessed=step.retry_after_guessed,
                    )  # fmt: skip
                else:
                    yield step
        finally:
            self.closed += 1


class Sentences(StreamedChat):
    """The model at the end of a chain."""

    def __init__(self) -> None:
        self.hits = 0

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        self.hits += 1
        call.attempts.append(
            Attempt(len(call.attempts) + 1, "extractive", "sentences", "answered", Usage(), "", 1.0, 1.0)
        )
        yield "From the sources. [1]"
        yield Reply("From the sources. [1]", "extractive", "sentences")


class Stage:
    """A FailoverChat over scripted targets, and what there is to see of it."""

    def __init__(
        self, *providers: Scripted, extractive: bool = False, policy: Policy = TENTH, limits: BreakerLimits = QUICK
    ) -> None:
        self.hops = tuple(Hop(provider, Breaker(limits)) for provider in providers)  # type: ignore[arg-type]
        self.sentences = Sentences()
        self.metrics = Metrics()
        lanes = Lanes({"answer": Chain(self.hops, extractive)})
        self.chat = FailoverChat(lanes, self.sentences, self.metrics, policy=policy, rng=random.Random(1))
        self.calls: list[Call] = []

    def breaker(self, name: str) -> Breaker:
        return next(hop.breaker for hop in self.hops if hop.target.name == name)

    async def complete(self, *, within_s: float = 5.0, **request: Any) -> Reply:
        return await self.chat.complete(asked(**request), self._call(within_s))

    async def refused(self, kind: type[RagError], *, within_s: float = 5.0, **request: Any) -> Any:
        """The error that a whole answer ends with."""
        with pytest.raises(kind) as caught:
            await self.complete(within_s=within_s, **request)
        assert caught.type is kind
        return caught.value

    async def streamed(self, *, within_s: float = 5.0, **request: Any) -> tuple[list[str], Reply | RagError]:
        """The pieces, and the reply or error after them."""
        pieces: list[str] = []
        try:
            async for item in self.chat.stream(asked(**request), self._call(within_s)):
                if isinstance(item, Reply):
                    return pieces, item
                pieces.append(item)
        except RagError as exc:
            return pieces, exc
        raise AssertionError("it ended without a reply")

    def tried(self) -> list[tuple[str, str, str]]:
        """Target, outcome and reason of each attempt of the last call."""
        return [(attempt.target, attempt.outcome, attempt.reason) for attempt in self.calls[-1].attempts]

    def _call(self, within_s: float) -> Call:
        self.calls.append(Call(TenantId(UUID(int=1)), Deadline.after(within_s)))
        return self.calls[-1]


def asked(**changed: Any) -> ChatRequest:
    facts: dict[str, Any] = {
        "task": "answer", "question": SECRET, "passages": (), "max_tokens": 64,
        "messages": (Message("system", "Answer from the sources."), Message("user", SECRET)), **changed,
    }  # fmt: skip
    return ChatRequest(**facts)
