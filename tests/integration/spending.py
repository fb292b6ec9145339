"""Calls that are metered: a chat model that uses what it is told to, and budgets to ask it within."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import psycopg

from rag.answering.metering import MeteredChat, size_of
from rag.answering.prices import Prices
from rag.calls import Attempt, Call, ChatRequest, Message, Reply, Usage
from rag.settings import Price, Target
from rag.store.budgets import Budget, Period, Unit, list_budgets, put_budget
from rag.store.engine import Database
from rag.store.ledger import Entry
from rag.values import Deadline, TenantId
from tests.fakes import StreamedChat

TARGET = Target(name="main", dialect="openai", url="http://127.0.0.1:9/v1", model="some-model")
PRICES = Prices({"some-model": [Price(input=Decimal(2), output=Decimal(8), cache_read=Decimal("0.5"))]})
WHOLE = Usage(input_uncached=40, input_cache_read=0, input_cache_write=0, output=10, reasoning=0)


def attempt(number: int = 1, **changed: Any) -> Attempt:
    defaults = {"target": "main", "model": "some-model", "outcome": "answered", "usage": WHOLE}
    return Attempt(number=number, **{"first_content_ms": 1.0, **defaults, **changed})


def entry(number: int = 1, *, provider: str = "openai", money: Decimal | None = None, **changed: Any) -> Entry:
    """An attempt for which *provider* is paid."""
    return Entry(attempt(number, **changed), provider, money)


class SpendingChat(StreamedChat):
    """Says ten words, the second once *gate* is open, and made *attempts*; if cut short, one of the words so far."""

    def __init__(self, *attempts: Attempt, gate: asyncio.Event | None = None, error: Exception | None = None) -> None:
        self.attempts = attempts or (attempt(),)
        self.gate = gate
        self.error = error
        self.asked = 0

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        self.asked += 1
        said = 0
        try:
            for _ in range(10):
                yield "word "
                said += 1
                if self.gate is not None:
                    await self.gate.wait()
        except (asyncio.CancelledError, GeneratorExit):
            used = Usage(100, output=said, estimated=True)
            call.attempts.append(attempt(len(call.attempts) + 1, outcome="cancelled", usage=used))
            raise
        call.attempts += self.attempts
        if self.error is not None:
            raise self.error
        yield Reply("word " * 10, "openai", "some-model", self.attempts[-1].usage)


def metered(database: Database, chat: SpendingChat, **changed: Any) -> MeteredChat:
    return MeteredChat(chat, database, **{"prices": PRICES, "chains": {"answer": [TARGET]}, **changed})


def request(max_tokens: int = 3900, *, text: str = "x" * 184) -> ChatRequest:
    """By default of 4,000 tokens at most: half of 184 characters, 8 of the frame, and 3,900."""
    return ChatRequest("answer", "?", (), (Message("user", text),), max_tokens)


def call(tenant: TenantId, seconds: float = 30.0) -> Call:
    return Call(tenant, Deadline.after(seconds))


def reserved_by(asked: ChatRequest) -> int:
    size = size_of(asked)
    return size.input + size.output


async def give(
    database: Database, tenant: TenantId, amount: str | int, unit: Unit = "tokens", period: Period = "day"
) -> None:
    async with database.tenant(tenant) as tx:
        await put_budget(tx, unit, period, Decimal(amount))


async def budget(database: Database, tenant: TenantId, period: Period = "day", unit: Unit = "tokens") -> Budget:
    return next(b for b in await list_budgets(database, tenant) if (b.unit, b.period) == (unit, period))


def ledger(owner: psycopg.Connection, tenant: TenantId, columns: str = "attempt, outcome, output") -> list[Any]:
    query = f"SELECT {columns} FROM ledger WHERE tenant_id = %s ORDER BY settled_at, attempt"
    return owner.execute(query, (tenant,)).fetchall()


def reservations(owner: psycopg.Connection, tenant: TenantId) -> int:
    rows = owner.execute("SELECT count(*) FROM reservations WHERE tenant_id = %s", (tenant,)).fetchall()
    return int(rows[0][0])
