"""What a caller is told whose answer is one of a lesser model, on every route alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from rag.calls import Period
from rag.llm.extractive import ExtractiveModel
from rag.llm.failover import FailoverChat
from rag.llm.lanes import Chain, Lanes
from rag.values import tenant_id
from tests.e2e.conftest import Caller, OpenFake
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.e2e.test_query_http import events
from tests.fakes import FakeReranker
from tests.integration.llm.fake_server import open_fake
from tests.integration.llm.fake_steps import Script, Tokens, fails, good
from tests.integration.llm.theatre import open_theatre
from tests.integration.spending import give

ALL_OF_IT = Tokens(1_000_000, 10)  # more than any budget here
ASKED = {"model": "rag", "messages": [{"role": "user", "content": QUESTION}]}

Open = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture
def ending_in_sentences(fake_service: OpenFake) -> Open:
    @asynccontextmanager
    async def opened(script: Script, period: Period | None = None) -> AsyncIterator[Caller]:
        """Somebody with a budget of 20,000 tokens in *period*, whose model p1 does as *script* says."""
        async with open_fake() as fake, open_theatre(fake, {}) as theatre:
            lanes = Lanes({"answer": Chain(tuple(theatre.hops.values()), extractive=True)})
            chat = FailoverChat(lanes, ExtractiveModel(FakeReranker()), theatre.metrics)
            fake.play("p1", script)
            targets, chains = [theatre.hops["p1"].target.model_dump()], {"answer": ("p1", "extractive")}
            async with fake_service(chat, chat_targets=targets, chat_chains=chains, answer_cache="off") as service:
                caller = await with_a_document(service)
                if period is not None:
                    await give(service.database, tenant_id("fake"), 20_000, period=period)
                yield caller

    return opened


async def degraded(caller: Caller) -> list[dict[str, Any]]:
    """What /v1/query and the completions say of it, plain and streamed."""
    plain = await caller.query(QUESTION)
    streamed = (await events(caller, QUESTION))[-1][1]
    completed = (await caller.send("POST", "/v1/chat/completions", json=ASKED)).json()["choices"][0]["message"]
    response = await caller.send("POST", "/v1/chat/completions", json=ASKED | {"stream": True})
    chunks = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    last = json.loads(chunks[-1])["choices"][0]["delta"]
    for body in (plain, streamed, completed, last):
        assert body["status"] == "degraded"
    return [body["degraded"] for body in (plain, streamed, completed, last)]


async def test_every_route_says_why_and_what_became_of_each_target(ending_in_sentences: Open) -> None:
    async with ending_in_sentences([fails("auth")]) as caller:
        failed = (await caller.query(QUESTION))["degraded"]

        left_alone = await degraded(caller)

    assert (failed["reason"], failed["tried"][0]["skipped"], failed["resets_at"]) == ("config", False, None)
    for why in left_alone:
        assert (why["reason"], why["detail"][:3]) == ("config", "p1:")
        assert why["tried"] == [{"target": "p1", "reason": "config", "ms": 0, "skipped": True, "last": ""}]
        assert 200 < why["retry_after_s"] <= 300


@pytest.mark.parametrize("period", ["day", "prepaid"])
async def test_when_a_budget_is_used_up_the_sentences_answer_and_every_route_says_so(
    ending_in_sentences: Open, period: Period
) -> None:
    async with ending_in_sentences(good("Five days. [1]", ALL_OF_IT), period) as caller:
        first = await caller.query(QUESTION)

        after = await degraded(caller)

    assert (first["status"], first["provider"], first["degraded"]) == ("answered", "p1", None)
    for why in after:
        assert why["reason"] == "budget"
        assert "0 of 20000 are left" in why["detail"]
        assert why["tried"] == [{"target": "p1", "reason": "budget", "ms": 0, "skipped": True, "last": ""}]
        assert (why["retry_after_s"] is None) == (why["resets_at"] is None) == (period == "prepaid")
    if period == "day":
        resets_at = datetime.fromisoformat(after[0]["resets_at"])
        assert (resets_at.hour, resets_at.minute, resets_at.second) == (0, 0, 0)
