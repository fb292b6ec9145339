"""The ledger and the budget after real failures of providers: every attempt is there, and paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal

import psycopg
import pytest

from rag import errors
from rag.answering.metering import MeteredChat
from rag.answering.prices import Prices
from rag.calls import Call
from rag.settings import Price
from rag.store.engine import Database
from rag.values import Deadline, TenantId
from tests.integration.llm.fake_server import FakeServer
from tests.integration.llm.fake_steps import (
    Script,
    Tokens,
    cut,
    done,
    eof,
    err,
    fails,
    fin,
    good,
    head200,
    role,
    say,
    stall,
    txt,
)  # fmt: skip
from tests.integration.llm.theatre import Theatre, asked, open_theatre
from tests.integration.spending import budget, give, ledger, reservations

pytestmark = pytest.mark.quiet

PRICES = Prices(
    {"model-1": [Price(input=Decimal(2), output=Decimal(8))], "model-2": [Price(input=Decimal(1), output=Decimal(4))]}
)
ROW = "attempt, target, outcome, reason, input_uncached, output, estimated"
USED = Tokens(input=12, output=5)
READ = 12 + 8 + 14 + 8  # half of 24 and of 28 characters, each with the frame of a message


@asynccontextmanager
async def opened(fake: FakeServer, database: Database, tenant: TenantId) -> AsyncIterator[tuple[Theatre, MeteredChat]]:
    """Two targets behind a meter, and a day's budget of 1,000 tokens and a dollar."""
    await give(database, tenant, 1000)
    await give(database, tenant, 1, "money")
    async with open_theatre(fake) as theatre:
        targets = [hop.target for hop in theatre.hops.values()]
        yield theatre, MeteredChat(theatre.chat, database, prices=PRICES, chains={"answer": targets})


def call(tenant: TenantId) -> Call:
    return Call(tenant, Deadline.after(6.0))


async def spent(database: Database, tenant: TenantId) -> tuple[Decimal, Decimal]:
    return (await budget(database, tenant)).spent, (await budget(database, tenant, unit="money")).spent


async def test_a_target_that_refused_costs_nothing_and_the_one_that_answered_what_it_says(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(tokens=USED))

    async with opened(fake, database, tenant) as (_, chat):
        reply = await chat.complete(asked(), call(tenant))

    assert reply.target == "p2"
    assert ledger(owner, tenant, ROW)[-1] == (2, "p2", "answered", "", 12, 5, False)
    assert [row[1:6] for row in ledger(owner, tenant, ROW)[:-1]] == [("p1", "failed", "overloaded", 0, 0)]
    assert await spent(database, tenant) == (17, Decimal("0.000032"))  # 12 x 1 + 5 x 4 dollars for a million
    assert reservations(owner, tenant) == 0


@pytest.mark.parametrize("script", [[fails("rate")], [fails("auth")], [head200(), err("overloaded")]])
async def test_an_attempt_that_was_refused_costs_nothing(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection, script: Script
) -> None:
    fake.play("p1", script)
    fake.play("p2", good(tokens=USED))

    async with opened(fake, database, tenant) as (_, chat):
        await chat.complete(asked(), call(tenant))

    assert [row[4:] for row in ledger(owner, tenant, ROW)] == [(0, 0, False), (12, 5, False)]
    assert (await budget(database, tenant)).spent == 17


async def test_an_attempt_that_was_heard_and_said_nothing_costs_its_question(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [head200(), eof])
    fake.play("p2", good(tokens=USED))

    async with opened(fake, database, tenant) as (_, chat):
        await chat.complete(asked(), call(tenant))

    assert [row[4:] for row in ledger(owner, tenant, ROW)] == [(READ, 0, True), (12, 5, False)]
    assert (await budget(database, tenant)).spent == READ + 17


async def test_bug_21_a_zero_that_the_provider_said_stays(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", good(tokens=Tokens(input=0, output=0)))

    async with opened(fake, database, tenant) as (_, chat):
        await chat.complete(asked(), call(tenant))

    assert [row[4:] for row in ledger(owner, tenant, ROW)] == [(0, 0, False)]
    assert await spent(database, tenant) == (0, 0)


async def test_bug_21_what_the_provider_did_not_say_is_estimated_and_has_a_price(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [role(), say("a" * 20), fin(), done])

    async with opened(fake, database, tenant) as (_, chat):
        reply = await chat.complete(asked(), call(tenant))

    assert [row[4:] for row in ledger(owner, tenant, ROW)] == [(READ, 10, True)]
    assert (reply.usage.input, reply.usage.output, reply.usage.estimated) == (READ, 10, True)
    # dollars for a million tokens: 2 in, 8 out
    assert await spent(database, tenant) == (READ + 10, Decimal(2 * READ + 8 * 10) / 1_000_000)


async def test_half_an_answer_keeps_its_cost_when_another_target_answers(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [role(), txt(40), cut])
    fake.play("p2", good(tokens=USED))

    async with opened(fake, database, tenant) as (_, chat):
        await chat.complete(asked(), call(tenant))

    rows = ledger(owner, tenant, ROW)
    assert [(row[1], row[2], row[3], row[6]) for row in rows] == [
        ("p1", "partial", "incomplete", True), ("p2", "answered", "", False),
    ]  # fmt: skip
    assert rows[0][5] > 40
    tokens = sum(row[4] + row[5] for row in rows)
    assert (await budget(database, tenant)).spent == tokens


async def test_bug_04_an_answer_that_broke_off_is_partial_in_the_ledger(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [role(), txt(40), cut])

    async with opened(fake, database, tenant) as (theatre, chat):
        with pytest.raises(errors.UpstreamIncomplete):
            async for _ in chat.stream(asked(), call(tenant)):
                pass
        assert theatre.hits("p2") == []

    assert [row[1:4] for row in ledger(owner, tenant, ROW)] == [("p1", "partial", "incomplete")]
    assert reservations(owner, tenant) == 0


async def test_bug_17_a_client_that_leaves_is_charged_the_question_and_what_was_said(
    fake: FakeServer, database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    fake.play("p1", [role(), txt(20), stall()])

    async with opened(fake, database, tenant) as (theatre, chat):
        async with aclosing(chat.stream(asked(), call(tenant))) as stream:
            said = "".join([str(await anext(stream)) for _ in range(20)])
        for _ in range(100):
            if theatre.hits("p1")[0].client_closed_at is not None:
                break
            await asyncio.sleep(0.005)
        assert theatre.hits("p1")[0].client_closed_at is not None

    [(_, target, outcome, _, read, output, estimated)] = ledger(owner, tenant, ROW)
    assert (target, outcome, estimated) == ("p1", "cancelled", True)
    assert output == -(-len(said) // 2)
    assert (await budget(database, tenant)).spent == read + output
    assert reservations(owner, tenant) == 0


async def test_bug_22_without_a_budget_no_provider_is_asked(
    fake: FakeServer, database: Database, tenant: TenantId
) -> None:
    fake.play("p1", good(tokens=USED))

    async with opened(fake, database, tenant) as (theatre, chat):
        await give(database, tenant, 100)
        with pytest.raises(errors.BudgetTooSmall):
            await chat.complete(asked(), call(tenant))

        assert theatre.hits("p1") == theatre.hits("p2") == []
