"""When a budget refuses, what it says, and when it begins anew."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from rag.answering.prices import Prices
from rag.calls import Period
from rag.errors import BalanceEmpty, BudgetExceeded, BudgetTooSmall, PriceUnknown
from rag.store.budgets import delete_budget
from rag.store.engine import Database
from rag.values import TenantId
from tests.conftest import MakeTenant
from tests.integration.spending import SpendingChat, budget, call, give, metered, request


async def test_a_window_that_is_used_up_refuses_with_the_moment_it_begins_anew(
    database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 3999 + 50, period="hour")
    await give(database, tenant, 1_000_000, period="month")
    chat = SpendingChat()
    model = metered(database, chat)
    await model.complete(request(), call(tenant))

    with pytest.raises(
        BudgetExceeded, match=r"^this call may need 4000 tokens, and 3999 of 4049 are left; the next hour"
    ) as refused:
        await model.complete(request(), call(tenant))

    resets_at = (await budget(database, tenant, "hour")).resets_at
    assert resets_at is not None
    assert f"{resets_at:%H:%M:%S}Z" in refused.value.detail
    assert 0 < (refused.value.retry_after_s or 0) <= 3600
    assert chat.asked == 1
    assert (await budget(database, tenant, "month")).reserved == 0


async def test_a_prepaid_balance_that_is_used_up_asks_to_be_paid_for(database: Database, tenant: TenantId) -> None:
    await give(database, tenant, 4049, period="prepaid")
    model = metered(database, SpendingChat())
    await model.complete(request(), call(tenant))

    with pytest.raises(BalanceEmpty, match="4000 tokens, and 3999 of 4049 are left; it is prepaid"):
        await model.complete(request(), call(tenant))
    await give(database, tenant, 5000, period="prepaid")
    await model.complete(request(), call(tenant))

    assert (await budget(database, tenant, "prepaid")).spent == 100


async def test_a_call_larger_than_the_whole_budget_is_told_that_waiting_does_not_help(
    database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 3000)

    expected = "4000 tokens, more than a whole day has: 3000; lower max_tokens or raise the budget$"
    with pytest.raises(BudgetTooSmall, match=expected) as refused:
        await metered(database, SpendingChat()).complete(request(), call(tenant))

    assert refused.value.retry_after_s is None


async def test_without_a_price_a_budget_of_money_refuses_and_one_of_tokens_does_not(
    database: Database, tenant: TenantId
) -> None:
    unpriced = metered(database, chat := SpendingChat(), prices=Prices({}))
    await give(database, tenant, 10_000)
    await unpriced.complete(request(), call(tenant))
    await give(database, tenant, 100, "money")

    with pytest.raises(PriceUnknown, match=r"RAG_PRICES does not say what 127\.0\.0\.1/some-model costs"):
        await unpriced.complete(request(), call(tenant))

    assert chat.asked == 1
    assert (await budget(database, tenant)).reserved == 0


@pytest.mark.parametrize("period", ["day", "prepaid"])
async def test_what_only_calls_at_work_hold_is_worth_waiting_for(
    database: Database, tenant: TenantId, period: Period
) -> None:
    await give(database, tenant, 7000, period=period)
    model = metered(database, SpendingChat())
    async with aclosing(model.stream(request(), call(tenant))) as stream:
        await anext(stream)

        with pytest.raises(BudgetExceeded, match="3000 of 7000 are left while calls at work hold 4000") as refused:
            await model.complete(request(), call(tenant))
        async for _ in stream:
            pass
    await model.complete(request(), call(tenant))

    assert refused.value.retry_after_s == 5
    assert (await budget(database, tenant, period)).spent == 100


async def test_budgets_of_one_tenant_are_nothing_to_another(database: Database, make_tenant: MakeTenant) -> None:
    poor, rich = await make_tenant(), await make_tenant()
    await give(database, poor, 1)
    await give(database, rich, 10_000)
    model = metered(database, SpendingChat())

    await model.complete(request(), call(rich))
    with pytest.raises(BudgetTooSmall):
        await model.complete(request(), call(poor))

    assert (await budget(database, rich)).spent == 50
    assert (await budget(database, poor)).spent == 0


async def test_a_budget_that_was_deleted_and_made_anew_at_work_is_not_given_what_it_never_held(
    database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 10_000)
    async with aclosing(metered(database, SpendingChat()).stream(request(), call(tenant))) as stream:
        await anext(stream)
        async with database.tenant(tenant) as tx:
            await delete_budget(tx, "tokens", "day")
        await give(database, tenant, 10_000)

        async for _ in stream:
            pass

    assert ((await budget(database, tenant)).spent, (await budget(database, tenant)).reserved) == (50, 0)


@pytest.mark.parametrize("period", ["hour", "day", "month"])
async def test_a_window_begins_with_the_hour_day_or_month_of_utc(
    database: Database, tenant: TenantId, owner: psycopg.Connection, period: Period
) -> None:
    lasts = {"hour": timedelta(hours=1), "day": timedelta(days=1), "month": timedelta(days=31)}[period]
    await give(database, tenant, 5000, period=period)
    model = metered(database, SpendingChat())
    await model.complete(request(), call(tenant))
    owner.execute("UPDATE budgets SET window_start = window_start - interval '32 days' WHERE tenant_id = %s", (tenant,))

    before = await budget(database, tenant, period)
    await model.complete(request(), call(tenant))
    after = await budget(database, tenant, period)

    now = datetime.now(UTC)
    assert (before.spent, after.spent) == (0, 50)
    assert after.resets_at is not None
    assert now < after.resets_at <= now + lasts
    assert after.resets_at.astimezone(UTC) == after.resets_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


async def test_what_ends_in_the_next_window_is_spent_there(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await give(database, tenant, 5000)
    async with aclosing(metered(database, SpendingChat()).stream(request(), call(tenant))) as stream:
        await anext(stream)
        owner.execute(
            "UPDATE budgets SET window_start = window_start - interval '1 day', spent = 4000 WHERE tenant_id = %s",
            (tenant,),
        )
        meanwhile = await budget(database, tenant)
        async for _ in stream:
            pass

    after = await budget(database, tenant)
    assert (meanwhile.spent, meanwhile.reserved) == (0, 4000)  # what still works may yet be spent in this window
    assert (after.spent, after.reserved) == (50, 0)
