"""What calls reserve, use and give back, whichever way they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import rag.answering.metering as metering
import rag.answering.settlement as settlement
from rag.calls import NO_TOKENS, Usage
from rag.errors import BudgetExceeded, SetupError, StoreUnavailable, UpstreamTimeout
from rag.store.engine import Database, open_database
from rag.store.ledger import Settlement, settle
from rag.values import TenantId
from tests.integration.spending import (
    SpendingChat,
    attempt,
    budget,
    call,
    entry,
    give,
    ledger,
    metered,
    request,
    reservations,
)


async def test_a_call_that_ends_has_spent_its_true_usage_and_holds_nothing(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)

    reply = await metered(database, SpendingChat()).complete(request(), call(tenant))

    spent = await budget(database, tenant)
    assert reply.text.startswith("word")
    assert (spent.spent, spent.reserved, spent.left) == (50, 0, 9950)
    assert ledger(owner, tenant, "attempt, feature, task, target, provider, model, outcome, reason") == [
        (1, "query", "answer", "main", "127.0.0.1", "some-model", "answered", "")
    ]
    assert ledger(owner, tenant, "input_uncached, input_cache_read, output, reasoning, estimated, clamped") == [
        (40, 0, 10, 0, False, False)
    ]


async def test_while_it_works_a_call_holds_the_most_it_can_use_and_no_connection(
    database_url: str, database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 10_000)
    async with (
        open_database(database_url, size=1, timeout_s=2.0) as single,
        aclosing(metered(single, SpendingChat()).stream(request(), call(tenant))) as stream,
    ):
        await anext(stream)

        meanwhile = await budget(single, tenant)

    assert (meanwhile.reserved, meanwhile.spent) == (4000, 0)


async def test_bug_23_a_hundred_calls_that_reserve_4000_and_use_50_leave_room_for_the_next(
    database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 100 * 50 + 4000)
    model = metered(database, SpendingChat())

    for _ in range(101):
        await model.complete(request(), call(tenant))

    assert (await budget(database, tenant)).spent == 101 * 50
    with pytest.raises(BudgetExceeded):
        await model.complete(request(), call(tenant))


async def test_bug_23_to_settle_twice_is_to_settle_once(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    made = call(tenant)
    await metered(database, SpendingChat()).complete(request(), made)
    before = await budget(database, tenant)

    again = Settlement(made.id, "query", "answer", (entry(money=Decimal(1)),))
    written = [await settle(database, tenant, [again]), await settle(database, tenant, [again, again])]

    assert written == [[], []]
    assert await budget(database, tenant) == before
    assert len(ledger(owner, tenant)) == 1


async def test_bug_17_who_leaves_in_the_middle_of_a_stream_has_spent_what_was_said_and_asked(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    stream = metered(database, SpendingChat()).stream(request(), call(tenant))
    said = 0
    while said < 5:
        said += bool(await anext(stream))

    await stream.aclose()

    assert ledger(owner, tenant, "outcome, input_uncached, output, estimated") == [("cancelled", 100, 4, True)]
    assert ((await budget(database, tenant)).spent, reservations(owner, tenant)) == (104, 0)


async def test_bug_17_a_task_cancelled_at_work_is_settled_all_the_same(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    model = metered(database, SpendingChat(gate=asyncio.Event()))
    task = asyncio.create_task(model.complete(request(), call(tenant)))
    while not (await budget(database, tenant)).reserved:
        await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task.cancel()  # and once more, as servers do
    await model.drain()

    assert [row[1] for row in ledger(owner, tenant)] == ["cancelled"]
    assert reservations(owner, tenant) == 0
    assert (await budget(database, tenant)).reserved == 0


async def test_a_call_cancelled_while_it_reserves_leaves_nothing_reserved(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 1_000_000)
    model = metered(database, SpendingChat(gate=asyncio.Event()))
    for turns in range(40):
        task = asyncio.create_task(model.complete(request(), call(tenant)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

    await model.drain()

    assert reservations(owner, tenant) == 0
    assert (await budget(database, tenant)).reserved == 0


async def test_a_call_that_fails_keeps_the_cost_of_its_half_answers(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    halves = [attempt(n, outcome="partial", reason="incomplete", usage=Usage(40, output=4)) for n in (1, 2)]
    model = metered(database, SpendingChat(*halves, error=UpstreamTimeout()))

    with pytest.raises(UpstreamTimeout):
        await model.complete(request(), call(tenant))

    assert [row[1:] for row in ledger(owner, tenant)] == [("partial", 4), ("partial", 4)]
    assert ((await budget(database, tenant)).spent, reservations(owner, tenant)) == (88, 0)


async def test_money_is_spent_by_the_price_of_each_class_of_tokens(database: Database, tenant: TenantId) -> None:
    await give(database, tenant, "0.05", "money")
    used = Usage(input_uncached=100, input_cache_read=900, input_cache_write=0, output=50, reasoning=20)

    await metered(database, SpendingChat(attempt(usage=used))).complete(request(), call(tenant))

    # dollars for a million tokens: 2 uncached, 0.5 from the cache, 8 out
    assert (await budget(database, tenant, unit="money")).spent == Decimal("0.00105")
    with pytest.raises(BudgetExceeded, match=r"may need 0\.0494 US dollars, and 0\.04895 of 0\.05 are left"):
        await metered(database, SpendingChat()).complete(request(6150), call(tenant))


async def test_a_chain_without_a_paid_target_reserves_nothing_and_is_written_down(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 1)
    chat = SpendingChat(attempt(target="extractive", usage=NO_TOKENS))

    await metered(database, chat, chains={"answer": []}).complete(request(), call(tenant))

    assert ledger(owner, tenant, "provider, output") == [("extractive", 0)]
    assert (await budget(database, tenant)).spent == 0


async def test_a_task_without_a_chain_reserves_nothing(database: Database, tenant: TenantId) -> None:
    await give(database, tenant, 1)
    chat = SpendingChat(error=SetupError("no chain"))

    with pytest.raises(SetupError):
        await metered(database, chat).complete(replace(request(), task="judge"), call(tenant))

    assert chat.asked == 1  # who knows the chains says what is missing


async def test_a_tenant_without_budgets_is_written_down_all_the_same(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await metered(database, SpendingChat()).complete(request(), call(tenant))

    assert ledger(owner, tenant) == [(1, "answered", 10)]
    assert reservations(owner, tenant) == 0


async def test_two_calls_of_one_operation_are_two_reservations_and_one_list_of_attempts(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 10_000)
    made = call(tenant)
    await metered(database, SpendingChat(attempt(1))).complete(request(), made)

    await metered(database, SpendingChat(attempt(2))).complete(request(), made)

    assert [row[0] for row in ledger(owner, tenant)] == [1, 2]
    assert (await budget(database, tenant)).spent == 100


async def test_bug_22_without_its_store_nothing_is_asked(
    clone: Callable[[], str], owner: psycopg.Connection, tenant: TenantId
) -> None:
    url, chat = clone(), SpendingChat()
    async with open_database(url, size=1, timeout_s=0.3) as lost:
        name = sql.Identifier(str(conninfo_to_dict(url)["dbname"]))
        owner.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

        with pytest.raises(StoreUnavailable):
            await metered(lost, chat).complete(request(), call(tenant))

    assert chat.asked == 0


async def test_an_answer_does_not_wait_long_for_a_settlement_and_that_survives_its_connection(
    database: Database, database_url: str, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "AGAIN_S", 0.02)
    monkeypatch.setattr(metering, "WAIT_S", 0.05)
    await give(database, tenant, 10_000)
    model = metered(database, SpendingChat())

    with psycopg.connect(database_url) as locking:
        locking.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
        reply = await model.complete(request(), call(tenant))
        killed = owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'ledger'::regclass AND NOT granted"
        ).fetchall()
    await model.drain()

    assert reply.text
    assert killed == [(True,)]
    assert len(ledger(owner, tenant)) == 1
    assert ((await budget(database, tenant)).spent, reservations(owner, tenant)) == (50, 0)
