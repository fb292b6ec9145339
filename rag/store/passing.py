"""Whether documents are in a scope at all, and what their metadata holds."""

from __future__ import annotations

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import Text

from rag.store.engine import Compiled, TenantTx
from rag.store.filters import parameters, visible
from rag.store.schema import documents
from rag.values import Scope


async def any_document(tx: TenantTx, scope: Scope) -> bool:
    """Whether there is a document in scope."""
    query = select(documents.c.document_id).where(visible(scope.filter)).limit(1)
    return bool(await tx.select(Compiled.of(query), **parameters(scope)))


async def kinds_of(tx: TenantTx, scope: Scope, key: str) -> set[str]:
    """What JSON calls the values that documents in scope have under a key of their metadata."""
    value = documents.c.metadata.op("->", return_type=JSONB())(bindparam("key", type_=Text))
    kind = func.jsonb_typeof(value)
    query = select(kind).where(visible(scope.filter), kind.is_not(None)).distinct()
    return {str(row[0]) for row in await tx.select(Compiled.of(query), **parameters(scope), key=key)}
