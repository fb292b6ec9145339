"""The graph of vectors (HNSW) for large indexes: filled once an index is large, then kept up by every write."""

from __future__ import annotations

from rag.store.engine import Database
from rag.store.indexes import IndexState, index_state, lock
from rag.values import IndexChoice, TenantId

GRAPH_FROM = 8_000  # chunks: below, comparing every vector takes no longer, and finds all (decision 0011)
STEP = 200  # vectors put in at a time: so long, a quarter of a second, writers of the tenant wait


async def graph_if_large(
    database: Database, tenant_id: TenantId, index: IndexChoice | int = "current", *, above: int = GRAPH_FROM
) -> bool:
    """Whether the index has just become one that is searched by the graph."""
    async with database.tenant(tenant_id) as tx:
        if not _due(await index_state(tx, index), above):
            return False
    while True:
        async with database.tenant(tenant_id) as tx:
            await lock(tx)  # nothing comes or goes meanwhile
            state = await index_state(tx, index)
            if not _due(state, above):
                return False
            if await tx.run("add_neighbours", generation=state.generation, limit=STEP) < STEP:
                await tx.run("graphed", generation=state.generation)
                return True


def _due(state: IndexState, above: int) -> bool:
    return not state.graphed and state.alive > above
