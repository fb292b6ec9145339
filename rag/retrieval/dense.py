"""The dense leg: the nearest vectors in scope, always min(depth, matching) of them."""

from __future__ import annotations

from rag.protocols import Embedder, Vectors
from rag.store.engine import Database, TenantTx
from rag.store.search import count_matching, nearest_exact, nearest_indexed, partition_rows, tenant_state
from rag.values import ChunkId, LegResult, Question, Scope, TenantId


class DenseLeg:
    """Cosine neighbours: every row compared while few match, the HNSW index when most of a large tenant does."""

    def __init__(self, database: Database, embedder: Embedder, *, exact_below: int) -> None:
        """Compare up to *exact_below* matching chunks one by one."""
        self._database = database
        self._embedder = embedder
        self._exact_below = exact_below

    async def __call__(self, tenant_id: TenantId, question: Question, depth: int) -> LegResult:
        """The best *depth* chunks; the score is the cosine similarity."""
        vector = await self._embedder.embed_query(question.text)
        async with self._database.snapshot(tenant_id) as tx:
            state = await tenant_state(tx)
            found = await self._nearest(tx, question.scope, vector, depth=depth, alive=state.posted - state.dead)
        return LegResult.of([(chunk, 1 - distance) for chunk, distance in found], state.index_version)

    async def _nearest(
        self, tx: TenantTx, scope: Scope, vector: Vectors, *, depth: int, alive: int
    ) -> list[tuple[ChunkId, float]]:
        if alive > self._exact_below:
            matching = await count_matching(tx, scope)
            # an index walk passes by nearly all it finds when most of its rows are another tenant's, or filtered away
            if matching > self._exact_below and 2 * matching > await partition_rows(tx):
                found = await nearest_indexed(tx, scope, vector, limit=depth)
                if len(found) == min(depth, matching):
                    return found
        return await nearest_exact(tx, scope, vector, limit=depth)
