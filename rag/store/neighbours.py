"""The graph of vectors (HNSW) for large indexes: filled once an index is large, then kept up by every write."""

from __future__ import annotations

from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, index_state, lock
from rag.values import IndexChoice, TenantId

GRAPH_FROM = 10_000  # chunks: below, comparing every vector takes less than 15 ms and finds all
STEP = 2000  # vectors put in at a time, about three seconds; only for the last step do writers wait


async def graph_if_large(
    database: Database, tenant_id: TenantId, index: IndexChoice | int = "current", *, above: int = GRAPH_FROM
) -> bool:
    """Whether the index has just become one that is searched by the graph."""
    while True:
        async with database.tenant(tenant_id) as tx:
            state = await index_state(tx, index)
            if state.graphed or state.alive <= above:
                return False
            if await _add(tx, state) == STEP:
                continue
        async with database.tenant(tenant_id) as tx:
            await lock(tx)  # from here on nothing can come that is not in the graph
            state = await index_state(tx, index)
            if await _add(tx, state) < STEP:
                await tx.run("graphed", generation=state.generation)
                return True


async def _add(tx: TenantTx, state: IndexState) -> int:
    return await tx.run("add_neighbours", generation=state.generation, limit=STEP)
