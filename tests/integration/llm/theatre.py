"""FailoverChat over real providers against the fake, at a tenth of the usual times."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from rag.calls import Attempt, Call, ChatRequest, Message, Reply
from rag.errors import RagError
from rag.llm.breaker import Breaker, BreakerLimits
from rag.llm.endpoint import Endpoint, open_http
from rag.llm.failover import FailoverChat
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.llm.policy import Policy
from rag.settings import Target
from rag.telemetry import Metrics
from rag.values import Deadline, TenantId
from tests.integration.llm.fake_server import FakeServer, Hit

SCALE = 0.1
PATIENCE_S = 4.0  # where silence is not the subject: a busy machine is no failure of a provider
SHORT = {"first_content_timeout_s": 10 * SCALE, "idle_timeout_s": 10 * SCALE}
MAX_HITS = 6  # of one request, over all targets
PROMPT = "How long does a refund take?"


def policy(scale: float = SCALE) -> Policy:
    return Policy(
        least_useful_s=0.25 * scale, kept_for_sentences_s=scale, backoff_s=0.25 * scale,
        backoff_cap_s=4 * scale, wait_cap_s=5 * scale, no_network_s=scale,
    )  # fmt: skip


def limits(scale: float = SCALE) -> BreakerLimits:
    return BreakerLimits(window_s=30 * scale, cooldown_s=5 * scale, longest_s=20 * scale, lease_s=60 * scale)


@dataclass
class Seen:
    """What came of one request: its pieces, and the reply or error after them."""

    pieces: list[str]
    end: Reply | RagError
    attempts: list[Attempt]
    seconds: float

    @property
    def reply(self) -> Reply:
        assert isinstance(self.end, Reply), repr(self.end)
        return self.end

    @property
    def tried(self) -> list[tuple[str, str, str]]:
        return [(attempt.target, attempt.outcome, attempt.reason) for attempt in self.attempts]


@dataclass
class Theatre:
    """The chat of a chain p1, p2, ... of one dialect."""

    fake: FakeServer
    chat: FailoverChat
    hops: dict[str, Hop]
    metrics: Metrics
    seen: list[Seen] = field(default_factory=list)

    def hits(self, name: str) -> list[Hit]:
        return self.fake.hits[name]

    async def stream(self, *, within_s: float = 6.0, **request: Any) -> Seen:
        """Ask for a stream, and check what holds for every request."""
        return await self._ask(self.chat.stream, within_s, request)

    async def complete(self, *, within_s: float = 6.0, **request: Any) -> Seen:
        """Ask for a whole answer, and check what holds for every request."""

        async def whole(asked: ChatRequest, call: Call) -> AsyncIterator[str | Reply]:
            yield await self.chat.complete(asked, call)

        return await self._ask(whole, within_s, request)

    async def _ask(self, ask: Any, within_s: float, request: dict[str, Any]) -> Seen:
        call = Call(TenantId(UUID(int=1)), Deadline.after(within_s))
        before = sum(map(len, self.fake.hits.values()))
        started = time.monotonic()
        pieces: list[str] = []
        end: Reply | RagError | None = None
        try:
            async for item in ask(asked(**request), call):
                assert end is None
                if isinstance(item, Reply):
                    end = item
                else:
                    pieces.append(item)
        except RagError as exc:
            end = exc
        assert end is not None, "it ended without a reply and without an error"
        seconds = time.monotonic() - started
        assert seconds < within_s + 0.3, "it hung"
        assert sum(map(len, self.fake.hits.values())) - before <= MAX_HITS
        if isinstance(end, Reply) and pieces:
            assert "".join(pieces) == end.text
        return Seen(pieces, end, call.attempts, seconds)


def asked(**changed: Any) -> ChatRequest:
    messages = (Message("system", "Answer from the sources."), Message("user", PROMPT))
    facts: dict[str, Any] = {
        "task": "answer", "question": PROMPT, "passages": (), "messages": messages, "max_tokens": 200, **changed
    }  # fmt: skip
    return ChatRequest(**facts)


@asynccontextmanager
async def open_theatre(
    fake: FakeServer, *targets: dict[str, Any], dialect: str = "openai", scale: float = SCALE
) -> AsyncIterator[Theatre]:
    """A chain of *targets*, each but for what it says the same; by default p1 and p2."""
    async with open_http() as http:
        hops = {}
        for n, own in enumerate(targets or ({}, {}), 1):
            facts: dict[str, Any] = {
                "name": f"p{n}", "dialect": dialect, "url": fake.url(f"p{n}", own.get("dialect", dialect)),
                "model": f"model-{n}", "connect_timeout_s": 2 * scale, "first_content_timeout_s": PATIENCE_S,
                "idle_timeout_s": PATIENCE_S, **own,
            }  # fmt: skip
            hops[facts["name"]] = Hop(Endpoint(Target(**facts), None, http), Breaker(limits(scale)))
        metrics = Metrics()
        lanes = Lanes({"answer": Chain(tuple(hops.values()))})
        chat = FailoverChat(lanes, None, metrics, policy=policy(scale), rng=random.Random(6))  # type: ignore[arg-type]
        yield Theatre(fake, chat, hops, metrics)
