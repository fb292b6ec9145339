"""What documents pass in a scope, and what their metadata holds: each in one look at the documents."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, distinct, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import Text

from rag.store.engine import Compiled, TenantTx
from rag.store.filters import parameters, visible
from rag.store.schema import documents
from rag.values import Filter, Scope


async def passed(tx: TenantTx, scope: Scope, filters: Sequence[Filter | None]) -> list[bool]:
    """Of each filter, whether a document that the asker of *scope* may see passes it; None lets all pass."""
    query = select(*(func.coalesce(func.bool_or(visible(one)), False) for one in filters)).where(visible(None))
    [row] = await tx.select(Compiled.of(query), **parameters(scope))
    return [bool(passes) for passes in row]


async def kinds(tx: TenantTx, scope: Scope, keys: Sequence[str]) -> list[set[str]]:
    """Of each key, what JSON calls the values that documents which the asker of *scope* may see have under it."""
    names = [bindparam(f"key_{n}", key, type_=Text) for n, key in enumerate(keys)]
    found = (func.jsonb_typeof(documents.c.metadata.op("->", return_type=JSONB())(name)) for name in names)
    query = select(*(func.array_agg(distinct(kind)) for kind in found)).where(visible(None))
    [row] = await tx.select(Compiled.of(query), **parameters(scope))
    return [{kind for kind in every or () if kind} for every in row]
