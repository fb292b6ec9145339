"""The dense leg: the nearest vectors in scope, always min(depth, matching) different texts of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rag.protocols import Embedder, Ordinals, Vectors
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, check_embedder, index_state
from rag.store.search import count_matching, nearest_among, nearest_exact, nearest_indexed, partition_rows
from rag.values import ContentId, LegResult, Question, Scope, TenantId

REMEMBERED, REMEMBERED_S = 1000, 60  # scopes, and for how long it is known how to search them
DEEPER = 4  # times as many rows when copies of one text filled the places


class DenseLeg:
    """Cosine neighbours: every row compared while few match, the HNSW graph when most of a large tenant does."""

    def __init__(
        self,
        database: Database,
        embedders: Mapping[str, Embedder],
        *,
        exact_below: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Embed with that one of *embedders*, by name, that made the index; the first is expected.

        Up to *exact_below* matching chunks are compared one by one.
        """
        self._database = database
        self._embedders = embedders
        self._ways = _Ways(exact_below, clock)

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        """The best *depth* chunks, *within* given ones if there are; the score is the cosine similarity.

        Raises IndexMismatch when the index was made by an embedder that is not here.
        """
        name = next(iter(self._embedders))
        while True:
            vector = await self._embedders[name].embed_query(question.text)
            async with self._database.snapshot(tenant_id) as tx:
                state = await index_state(tx, question.scope.index)
                maker = state.recipe.embedder if state.recipe else name
                if maker == name:
                    by_graph = within is None and await self._ways.by_graph(tx, question.scope, state)
                    search = _Search(tx, question.scope, vector, generation=state.generation, within=within)
                    found = await search.nearest(depth, by_graph=by_graph)
                    pairs = [(content, 1 - distance) for content, distance in found]
                    return LegResult.of(pairs, index_version=state.index_version, generation=state.generation)
            check_embedder(maker, self._embedders)
            name = maker


class _Ways:
    """Whether to walk the graph: found out once a minute for a scope and a version of the tenant's index.

    Meanwhile a document may become valid, or the tables be analysed: either way of searching finds enough even then.
    """

    def __init__(self, exact_below: int, clock: Callable[[], float]) -> None:
        self._exact_below = exact_below
        self._clock = clock
        self._known: dict[object, tuple[bool, float]] = {}

    async def by_graph(self, tx: TenantTx, scope: Scope, state: IndexState) -> bool:
        if not state.graphed or state.alive <= self._exact_below:
            return False
        key = (tx.tenant_id, state.generation, state.index_version, scope.groups, scope.filter, scope.as_of.date())
        known, until = self._known.get(key, (False, 0.0))
        if self._clock() < until:
            return known
        matching = await count_matching(tx, scope)
        # an index walk passes by nearly all it finds when most of its rows are another tenant's, or filtered away
        known = matching > self._exact_below and 2 * matching > await partition_rows(tx)
        self._known[key] = known, self._clock() + REMEMBERED_S
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return known


class _Search:
    """One question's search in one snapshot."""

    def __init__(
        self, tx: TenantTx, scope: Scope, vector: Vectors, *, generation: int, within: Ordinals | None
    ) -> None:
        self._tx = tx
        self._scope = scope
        self._vector = vector
        self._generation = generation
        self._within = within

    async def nearest(self, depth: int, *, by_graph: bool) -> list[tuple[ContentId, float]]:
        """The *depth* nearest that say different things."""
        limit = depth
        while True:
            found = await self._rows(limit, by_graph=by_graph)
            distinct: dict[ContentId, float] = {}
            for content, distance in found:
                distinct.setdefault(content, distance)
            if len(distinct) >= depth or len(found) < limit:
                return list(distinct.items())[:depth]
            limit *= DEEPER

    async def _rows(self, limit: int, *, by_graph: bool) -> list[tuple[ContentId, float]]:
        asked = {"generation": self._generation, "limit": limit}
        if self._within is not None:
            return await nearest_among(self._tx, self._scope, self._vector, self._within, **asked)
        if by_graph:
            found = await nearest_indexed(self._tx, self._scope, self._vector, **asked)
            if len(found) == limit:
                return found
        return await nearest_exact(self._tx, self._scope, self._vector, **asked)
