"""What documents pass in a scope, and what their metadata holds: each in one look at the documents."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from sqlalchemy import and_, case, distinct, func, select

from rag.store.engine import Compiled, TenantTx
from rag.store.filters import allowed, kept, metadata_kind, parameters, valid
from rag.values import Filter, Scope


class Passed(IntEnum):
    """Which documents pass a filter: none, those of other times only, or some that are valid."""

    NONE = 0
    OTHER_TIMES = 1
    VALID = 2


async def passed(tx: TenantTx, scope: Scope, filters: Sequence[Filter | None]) -> list[Passed]:
    """What of the documents that the asker of *scope* may see passes each filter; None lets all pass."""
    conditions = [kept(one) for one in filters]
    best = (
        case((and_(condition, valid()), Passed.VALID), (condition, Passed.OTHER_TIMES), else_=Passed.NONE)
        for condition in conditions
    )
    [row] = await tx.select(Compiled.of(select(*map(func.max, best)).where(allowed())), **parameters(scope))
    return [Passed(level or Passed.NONE) for level in row]


async def kinds(tx: TenantTx, scope: Scope, keys: Sequence[str]) -> list[set[str]]:
    """Of each key, what JSON calls the values that documents which the asker of *scope* may see have under it."""
    query = select(*(func.array_agg(distinct(metadata_kind(key))) for key in keys)).where(allowed())
    [row] = await tx.select(Compiled.of(query), **parameters(scope))
    return [{kind for kind in every or () if kind} for every in row]
