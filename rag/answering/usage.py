"""What a tenant has used: tokens from the ledger, and what they cost by the prices of their day."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from rag.answering.prices import Prices, cost_of, paid_name, steps
from rag.calls import NO_TOKENS, Usage
from rag.errors import InvalidInput
from rag.retrieval.filters import parse_moment
from rag.store.engine import Database
from rag.store.ledger import Group, Keys, Sum, calls, sums
from rag.values import TenantId

MOST_DAYS = 366  # a leap year: every attempt in the span is read, and priced by its half hour


@dataclass(frozen=True, slots=True)
class Used:
    """One line of a report.

    `known_cost`, in US dollars, is of all attempts but the `unknown` ones: those of `unpriced` models, and those whose
    tokens nobody knows. A call that asked two models is in the lines of both, and one in the total.
    """

    feature: str
    model: str
    day: datetime | None
    calls: int
    attempts: int = 0
    estimated: int = 0
    usage: Usage = NO_TOKENS
    known_cost: Decimal = Decimal(0)
    unknown: int = 0
    unpriced: tuple[str, ...] = ()

    @property
    def cost(self) -> Decimal | None:
        """What it cost in US dollars; None when that of any attempt is not known."""
        return None if self.unknown else self.known_cost


@dataclass(frozen=True, slots=True)
class Report:
    """What was used in a span of time: a line for each group, and all of them as one."""

    span: tuple[datetime, datetime]
    lines: tuple[Used, ...]
    total: Used


async def usage_report(
    database: Database, tenant_id: TenantId, span: tuple[datetime, datetime], *, keys: Keys, prices: Prices
) -> Report:
    """What the attempts used that were settled in *span*, its end excluded."""
    async with database.snapshot(tenant_id) as tx:
        counted = await calls(tx, keys, span)
        everything = (await calls(tx, Keys(), span)).get(("", "", None), 0)
        parts = await sums(tx, keys, span, steps=steps())
    lines = {group: Used(*group, calls=count) for group, count in counted.items()}
    whole = Used("", "", None, everything)  # a call that asked two models is in two lines
    for part in parts:
        used = _used(part, prices)
        lines[part.group], whole = _added(lines[part.group], used), _added(whole, used)
    return Report(span, tuple(lines[group] for group in sorted(lines, key=_order)), whole)


def parse_keys(text: str) -> Keys:
    """The keys in a text such as `feature,model,day`.

    Raises InvalidInput for any other name.
    """
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := names - {field.name for field in fields(Keys)}:
        raise InvalidInput(f"usage is grouped by feature, model and day, not by {', '.join(sorted(unknown))[:60]}")
    return Keys(**dict.fromkeys(names, True))


def parse_span(since: str | None, until: str | None, *, now: datetime) -> tuple[datetime, datetime]:
    """From one moment to another; by default from the beginning of this month to the end of today, in UTC.

    Raises InvalidInput for what is no moment, for an end before the beginning, and for more than a year.
    """
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = parse_moment(since, "from") if since else today.replace(day=1)
    last = parse_moment(until, "to") if until else today + timedelta(days=1)
    if first >= last:
        raise InvalidInput(f"`from` must be before `to`; got {first.isoformat()} and {last.isoformat()}")
    if last - first > timedelta(days=MOST_DAYS):
        raise InvalidInput(
            f"a report is of {MOST_DAYS} days at most; {first.isoformat()} to {last.isoformat()} is longer"
        )
    return first, last


def _used(part: Sum, prices: Prices) -> Used:
    rates = prices.rates(part.target, part.provider, part.model, moment=part.moment, input_tokens=part.largest_input)
    cost = None if part.unknown else cost_of(part.usage, rates, attempts=part.attempts)
    return Used(
        *part.group,
        calls=0,
        attempts=part.attempts,
        estimated=part.estimated,
        usage=part.usage,
        known_cost=cost or Decimal(0),
        unknown=part.attempts if cost is None else 0,
        unpriced=(paid_name(part.provider, part.model),) if cost is None and rates is None else (),
    )


def _added(line: Used, other: Used) -> Used:
    return replace(
        line,
        attempts=line.attempts + other.attempts,
        estimated=line.estimated + other.estimated,
        usage=_sum(line.usage, other.usage),
        known_cost=line.known_cost + other.known_cost,
        unknown=line.unknown + other.unknown,
        unpriced=tuple(sorted({*line.unpriced, *other.unpriced})),
    )


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        (one.input_uncached or 0) + (other.input_uncached or 0),
        (one.input_cache_read or 0) + (other.input_cache_read or 0),
        (one.input_cache_write or 0) + (other.input_cache_write or 0),
        (one.output or 0) + (other.output or 0),
        (one.reasoning or 0) + (other.reasoning or 0),
    )


def _order(group: Group) -> tuple[str, str, str]:
    feature, model, day = group
    return (day.isoformat() if day else "", feature, model)
