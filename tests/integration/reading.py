"""What is stored, read back: by both legs, as a document, and as rows."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from rag.protocols import Leg
from rag.store.documents import (
    StoredDocument,
    delete_document,
    get_document,
)
from rag.store.engine import Database
from rag.values import ChunkId, TenantId
from tests.integration.corpus import question

NOBODY = frozenset[str]()


@dataclass(frozen=True)
class Legs:
    """What each leg finds, the ids of the chunks."""

    dense: Leg
    lexical: Leg

    async def find(self, tenant: TenantId, query: str) -> tuple[set[ChunkId], set[ChunkId]]:
        dense = await self.dense(tenant, question(query), 50)
        lexical = await self.lexical(tenant, question(query), 50)
        return {r.content for r in dense.ranked}, {r.content for r in lexical.ranked}


async def document(database: Database, tenant: TenantId, name: str = "handbook.md") -> StoredDocument:
    async with database.tenant(tenant) as tx:
        return await get_document(tx, name, NOBODY)


def counts(owner: psycopg.Connection, tenant: TenantId) -> tuple[int, ...]:
    """Rows of documents, chunks and embeddings, and the sum of what documents say of their chunks."""
    [row] = owner.execute(
        "SELECT (SELECT count(*) FROM documents WHERE tenant_id = %(t)s),"
        "       (SELECT count(*) FROM chunks WHERE tenant_id = %(t)s),"
        "       (SELECT count(*) FROM embeddings WHERE tenant_id = %(t)s),"
        "       (SELECT coalesce(sum(chunk_count), 0)::int FROM documents WHERE tenant_id = %(t)s)",
        {"t": tenant},
    ).fetchall()
    return tuple(row)


def chunk_ids(owner: psycopg.Connection, tenant: TenantId) -> list[tuple[object, ...]]:
    return owner.execute("SELECT position, chunk_id FROM chunks WHERE tenant_id = %s ORDER BY 1", (tenant,)).fetchall()


async def delete(database: Database, tenant: TenantId, external_id: str) -> None:
    async with database.tenant(tenant) as tx:
        await delete_document(tx, external_id)
