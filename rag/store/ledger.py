"""The ledger: a row for each attempt of each call, written once, with tokens and never money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from rag.calls import Attempt, Task, Usage
from rag.store.engine import Database, TenantTx
from rag.values import TenantId


@dataclass(frozen=True, slots=True)
class Entry:
    """An attempt to be written, with the provider, who is paid for it, and what it costs by the prices of this moment.

    `money` is None where no price is known.
    """

    attempt: Attempt
    provider: str
    money: Decimal | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """A call that has ended, and its attempts."""

    operation_id: UUID
    feature: str
    task: Task
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """What a usage report is grouped by."""

    feature: bool = False
    model: bool = False
    day: bool = False


Group = tuple[str, str, datetime | None]  # the feature, the provider/model, the day; empty where not asked for


@dataclass(frozen=True, slots=True)
class Sum:
    """Attempts of one group with one price: `moment` and `largest_input` say which of the model's prices.

    They all used something, or nothing, or nobody knows how much: then they are `unknown`.
    """

    group: Group
    target: str
    provider: str
    model: str
    moment: datetime
    largest_input: int
    attempts: int
    usage: Usage
    estimated: int
    unknown: bool


async def settle(database: Database, tenant_id: TenantId, settlements: Sequence[Settlement]) -> list[tuple[UUID, int]]:
    """The calls and numbers of the attempts that were not in the ledger yet: what they used is spent, once.

    What was reserved for the calls is free afterwards; all of it is one transaction.
    """
    rows = await database.alone(tenant_id).fetch("settle", **_columns(settlements))
    return sorted((row[0], int(row[1])) for row in rows)


async def sums(tx: TenantTx, keys: Keys, span: tuple[datetime, datetime], *, steps: Sequence[int]) -> list[Sum]:
    """The attempts settled in *span*, its end excluded, in as many sums as they have prices.

    *steps* are the sizes of input from which any model has another price.
    """
    since, until = span
    rows = await tx.fetch("ledger_sums", **_asked(keys), since=since, until=until, steps=list(steps))
    return [Sum(*[row[:3], *row[3:9], Usage(*row[9:14]), *row[14:]]) for row in rows]


async def calls(tx: TenantTx, keys: Keys, span: tuple[datetime, datetime]) -> dict[Group, int]:
    """The number of calls in each group; one that asked two models counts for both."""
    since, until = span
    rows = await tx.fetch("ledger_calls", **_asked(keys), since=since, until=until)
    return {tuple(row[:3]): int(row[3]) for row in rows}


def _asked(keys: Keys) -> Mapping[str, bool]:
    return {"by_feature": keys.feature, "by_model": keys.model, "by_day": keys.day}


def _columns(settlements: Sequence[Settlement]) -> dict[str, object]:
    made = [(settlement, entry) for settlement in settlements for entry in settlement.entries]
    attempts = [entry.attempt for _, entry in made]
    used = [attempt.usage for attempt in attempts]
    return {
        "settled": [settlement.operation_id for settlement in settlements],
        "operations": [settlement.operation_id for settlement, _ in made],
        "features": [settlement.feature for settlement, _ in made],
        "tasks": [settlement.task for settlement, _ in made],
        "attempts": [a.number for a in attempts],
        "targets": [a.target for a in attempts],
        "providers": [entry.provider for _, entry in made],
        "models": [a.model for a in attempts],
        "outcomes": [a.outcome for a in attempts],
        "reasons": [a.reason for a in attempts],
        "inputs_uncached": [u.input_uncached for u in used],
        "inputs_cache_read": [u.input_cache_read for u in used],
        "inputs_cache_write": [u.input_cache_write for u in used],
        "outputs": [u.output for u in used],
        "reasonings": [u.reasoning for u in used],
        "estimated": [u.estimated for u in used],
        "clamped": [u.clamped for u in used],
        "first_content_ms": [a.first_content_ms for a in attempts],
        "total_ms": [a.total_ms for a in attempts],
        "money": [entry.money for _, entry in made],
    }
