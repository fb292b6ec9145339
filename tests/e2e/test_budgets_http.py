"""What a caller sees when its tenant may not use more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from rag.answering.metering import MeteredChat
from rag.answering.prices import Prices
from rag.calls import Call, ChatRequest, Period, Reply, Unit
from rag.values import tenant_id
from tests.e2e.conftest import Caller, FakeService, OpenFake
from tests.e2e.test_refusals_http import assert_problem
from tests.integration.corpus import prepared, store
from tests.integration.spending import SpendingChat, budget, give, ledger, metered

QUESTION = "How many days does a refund take?"


class Later:
    """A chat model that is there once the service has its database."""

    inner: MeteredChat

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        return await self.inner.complete(request, call)

    def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        return self.inner.stream(request, call)


@asynccontextmanager
async def opened(
    fake_service: OpenFake, chat: SpendingChat, prices: Prices | None = None
) -> AsyncIterator[tuple[FakeService, Caller]]:
    """A service whose metered model is *chat*, and an administrator of a tenant with one document."""
    later = Later()
    async with fake_service(later) as fake:
        later.inner = metered(fake.database, chat, **({} if prices is None else {"prices": prices}))
        caller = await fake.caller(scopes="admin")
        await store(
            fake.database, tenant_id("fake"), [prepared("refunds.md", "How many days a refund take: five days.")]
        )
        yield fake, caller


@pytest.mark.parametrize(
    ("unit", "period", "status", "code"),
    [
        ("tokens", "day", 429, "budget_exceeded"),
        ("tokens", "prepaid", 402, "balance_empty"),
        ("money", "month", 409, "price_unknown"),
    ],
)
async def test_a_budget_that_refuses_says_so_before_a_model_is_asked(
    fake_service: OpenFake, unit: Unit, period: Period, status: int, code: str
) -> None:
    chat = SpendingChat()
    async with opened(fake_service, chat, Prices({})) as (fake, caller):
        await give(fake.database, tenant_id("fake"), 1200, unit, period)
        if unit == "tokens":
            await caller.query(QUESTION)

        response = await caller.send("POST", "/v1/query", json={"query": QUESTION, "max_tokens": 600})

    assert_problem(response, status, code)
    assert chat.asked == (unit == "tokens")


async def test_a_call_larger_than_a_whole_window_is_told_to_be_smaller_and_not_to_wait(fake_service: OpenFake) -> None:
    async with opened(fake_service, SpendingChat()) as (fake, caller):
        await give(fake.database, tenant_id("fake"), 1150, "tokens", "day")

        too_large = await caller.send("POST", "/v1/query", json={"query": QUESTION, "max_tokens": 1200})
        smaller = await caller.send("POST", "/v1/query", json={"query": QUESTION, "max_tokens": 200})

    assert_problem(too_large, 402, "budget_too_small")
    assert "retry-after" not in too_large.headers
    assert too_large.json()["detail"].endswith("more than a whole day has: 1150; lower max_tokens or raise the budget")
    assert smaller.status_code == 200


async def test_a_window_that_is_used_up_says_in_how_many_seconds_the_next_begins(fake_service: OpenFake) -> None:
    async with opened(fake_service, SpendingChat()) as (fake, caller):
        await give(fake.database, tenant_id("fake"), 1230, "tokens", "day")
        await caller.query(QUESTION)

        response = await caller.send("POST", "/v1/query", json={"query": QUESTION, "max_tokens": 620})

    now = datetime.now(UTC)
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    retry_after_s = int(response.headers["retry-after"])
    assert abs(retry_after_s - (tomorrow - now).total_seconds()) <= 5
    assert response.json()["retry_after_s"] == retry_after_s
    assert response.json()["detail"].endswith(f"the next day begins at {tomorrow:%Y-%m-%d}T00:00:00Z")


async def test_bug_17_who_closes_the_stream_is_charged_for_what_was_said(fake_service: OpenFake) -> None:
    async with opened(fake_service, SpendingChat(gate=asyncio.Event())) as (fake, caller):
        await give(fake.database, tenant_id("fake"), 5000)
        body, headers = {"query": QUESTION, "stream": True}, {"Authorization": f"Bearer {caller.key}"}
        async with caller.http.stream("POST", "/v1/query", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line == "event: delta":
                    break
        left_at = time.monotonic()
        with psycopg.connect(fake.database_url, autocommit=True) as owner:
            while not (rows := ledger(owner, tenant_id("fake"), "outcome, output, estimated")):
                assert time.monotonic() < left_at + 5
                await asyncio.sleep(0.02)
        charged = await budget(fake.database, tenant_id("fake"))

    assert rows == [("cancelled", 1, True)]
    assert (charged.reserved, charged.spent < 700) == (0, True)
