"""What a report says of the ledger, each figure worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID, uuid4

import psycopg
import pytest

from rag.answering.prices import Prices
from rag.answering.usage import Report, parse_keys, parse_span, usage_report
from rag.calls import NO_TOKENS, Usage
from rag.errors import InvalidInput
from rag.settings import Price
from rag.store.engine import Database
from rag.store.ledger import Entry, Settlement, settle
from rag.values import TenantId
from tests.conftest import MakeTenant
from tests.integration.spending import entry

MONTH = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
PRICES = Prices(
    {
        "ours": [
            Price(input=Decimal(2), output=Decimal(8), cache_read=Decimal("0.5")),
            Price(valid_from=datetime(2026, 3, 15, tzinfo=UTC).date(), input=Decimal(4), output=Decimal(10)),
        ]
    }
)


def used(uncached: int, cached: int, output: int, *, model: str = "ours", number: int = 1) -> Entry:
    usage = Usage(uncached, cached, 0, output, 0)
    return entry(number, target=f"to-{model}", provider="127.0.0.1", model=model, usage=usage)


async def write(
    database: Database, owner: psycopg.Connection, tenant: TenantId, day: str, *made: Entry, feature: str = "query"
) -> UUID:
    """One call that ended on a day of March 2026, at noon unless a time is given."""
    ended = Settlement(uuid4(), feature, "answer", made)
    await settle(database, tenant, [ended])
    moment = datetime.fromisoformat(f"2026-03-{day}" if "T" in day else f"2026-03-{day}T12:00").replace(tzinfo=UTC)
    owner.execute(
        "UPDATE ledger SET settled_at = %s WHERE tenant_id = %s AND operation_id = %s",
        (moment, tenant, ended.operation_id),
    )
    return ended.operation_id


async def report(database: Database, tenant: TenantId, by: str = "", prices: Prices = PRICES) -> Report:
    return await usage_report(database, tenant, MONTH, keys=parse_keys(by), prices=prices)


async def test_the_figures_of_a_month_equal_those_worked_out_by_hand(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await write(database, owner, tenant, "02", used(100, 900, 50))  # 100 x 2 + 900 x 0.5 + 50 x 8 = 1,050
    await write(database, owner, tenant, "14T23:59", used(1000, 0, 100), feature="judge")  # 2,000 + 800 = 2,800
    await write(database, owner, tenant, "15T00:00", used(1000, 900, 100))  # 4,000 + 900 x 4 + 1,000 = 8,600

    by_day = await report(database, tenant, "day")
    by_feature = await report(database, tenant, "feature")

    days = [(f"{line.day:%d}", line.calls, line.cost) for line in by_day.lines]
    assert days == [("02", 1, Decimal("0.00105")), ("14", 1, Decimal("0.0028")), ("15", 1, Decimal("0.0086"))]
    features = [(line.feature, line.calls, line.usage.output, line.cost) for line in by_feature.lines]
    assert features == [("judge", 1, 100, Decimal("0.0028")), ("query", 2, 150, Decimal("0.00965"))]
    for total in (by_day.total, by_feature.total):
        assert (total.calls, total.attempts, total.cost) == (3, 3, Decimal("0.01245"))
        assert total.usage == Usage(2100, 1800, 0, 250, 0)


async def test_an_unknown_price_is_unknown_and_says_whose(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await write(database, owner, tenant, "02", used(100, 900, 50))
    await write(database, owner, tenant, "03", used(10, 0, 5, model="theirs"))

    found = await report(database, tenant, "model")

    costs = [(line.model, line.cost, line.unpriced) for line in found.lines]
    assert costs == [
        ("127.0.0.1/ours", Decimal("0.00105"), ()),
        ("127.0.0.1/theirs", None, ("127.0.0.1/theirs",)),
    ]
    assert (found.total.cost, found.total.known_cost) == (None, Decimal("0.00105"))
    assert (found.total.unpriced, found.total.unknown) == (("127.0.0.1/theirs",), 1)


async def test_an_attempt_that_used_nothing_costs_nothing_and_takes_no_fee_for_a_request(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    refused = entry(1, target="down", provider="127.0.0.1", model="theirs", outcome="failed", usage=NO_TOKENS)
    searched = {"target": "s", "provider": "perplexity", "model": "sonar"}  # a request has a price there
    await write(database, owner, tenant, "02", refused, used(100, 0, 0, number=2))
    await write(database, owner, tenant, "02", entry(1, **searched, outcome="failed", usage=NO_TOKENS))

    costs = {line.model: (line.cost, line.unknown) for line in (await report(database, tenant, "model")).lines}

    assert costs == {
        "127.0.0.1/ours": (Decimal("0.0002"), 0),
        "127.0.0.1/theirs": (0, 0),
        "perplexity/sonar": (0, 0),
    }


async def test_attempts_of_unknown_usage_are_counted_and_what_is_known_beside_them_is_still_said(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    unsaid = entry(2, target="to-ours", provider="127.0.0.1", model="ours", usage=Usage(50))
    await write(database, owner, tenant, "02", used(100, 0, 50), unsaid)
    await write(database, owner, tenant, "02", used(100, 0, 50))

    [line] = (await report(database, tenant, "model")).lines

    # 2 x (100 x 2 + 50 x 8) dollars for a million
    assert (line.cost, line.known_cost, line.unknown, line.attempts) == (None, Decimal("0.0012"), 1, 3)
    assert line.unpriced == ()  # it has a price; what it lacks is a count


async def test_a_price_set_later_is_applied_to_what_was_used_before(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await write(database, owner, tenant, "03", used(10, 0, 5, model="theirs"))
    later = Prices({"to-theirs": [Price(input=Decimal(1), output=Decimal(2))]})

    costs = [(await report(database, tenant, prices=prices)).total.cost for prices in (PRICES, later)]

    assert costs == [None, Decimal("0.00002")]


async def test_a_call_that_asked_two_models_is_one_call_with_two_attempts(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await write(database, owner, tenant, "02", used(1, 0, 0), used(1, 0, 1, model="theirs", number=2))

    found = await report(database, tenant, "model")

    assert [(line.model, line.calls) for line in found.lines] == [("127.0.0.1/ours", 1), ("127.0.0.1/theirs", 1)]
    assert (found.total.calls, found.total.attempts) == (1, 2)


async def test_long_inputs_are_priced_one_by_one_and_not_as_their_sum(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    tiered = {"target": "main", "provider": "anthropic", "model": "claude-sonnet-4-5"}
    for size in (150_000, 150_000, 250_000):
        await write(database, owner, tenant, "02", entry(**tiered, usage=Usage(size, 0, 0, 0, 0)))

    found = await report(database, tenant)

    # dollars for a million: 3 up to 200,000 tokens of input, 6 for a longer one
    assert found.total.cost == Decimal("0.9") + Decimal("1.5")


async def test_the_ledger_of_one_tenant_is_not_in_the_report_of_another(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    await write(database, owner, mine, "02", used(100, 0, 50))

    found = await report(database, other, "feature,model,day")

    assert (found.lines, found.total.calls, found.total.cost) == ((), 0, 0)


async def test_a_span_begins_with_its_first_moment_and_ends_before_its_last(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await write(database, owner, tenant, "01T00:00", used(1, 0, 0))
    gone = await write(database, owner, tenant, "31T23:59", used(2, 0, 0))
    owner.execute("UPDATE ledger SET settled_at = '2026-04-01Z' WHERE operation_id = %s", (gone,))

    assert (await report(database, tenant)).total.usage.input == 1


def test_a_report_is_of_this_month_unless_it_is_said_otherwise() -> None:
    now = datetime(2026, 11, 30, 12, 41, tzinfo=UTC)

    assert parse_span(None, None, now=now) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert parse_span("2026-11-02", "2026-11-02T06:00+02:00", now=now)[1] == datetime(2026, 11, 2, 4, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="`from` must be before `to`"):
        parse_span("2026-11-02", "2026-11-02", now=now)


def test_a_report_is_of_a_year_at_most() -> None:
    now = datetime(2024, 12, 31, 12, 41, tzinfo=UTC)

    assert parse_span("2024-01-01", None, now=now) == (
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2025, 1, 1, tzinfo=UTC),
    )
    with pytest.raises(InvalidInput, match=r"366 days at most; 2023-12-31T\S+ to 2025-01-01T\S+ is longer"):
        parse_span("2023-12-31", None, now=now)


def test_usage_is_grouped_by_known_keys_only() -> None:
    with pytest.raises(InvalidInput, match="not by tenant"):
        parse_keys("model, tenant")
