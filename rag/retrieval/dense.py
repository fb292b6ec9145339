"""The dense leg: the nearest vectors in scope, always min(depth, matching) different texts of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum

from rag.language import language
from rag.protocols import Embedder, Ordinals, Vectors
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, check_embedder, index_state
from rag.store.search import (
    count_matching,
    nearest_among,
    nearest_exact,
    nearest_indexed,
    nearest_sifted,
    partition_rows,
)
from rag.values import ContentId, LegResult, Question, Scope, TenantId

REMEMBERED, REMEMBERED_S = 1000, 60  # scopes, and for how long it is known how to search them
FEW = 500  # chunks, which are compared in less time than it takes to count those that match
SIFTED_SHARE = 3  # one in so many in scope, or more: looking up each chunk first takes three times as long
DEEPER = 4  # times as many rows when copies of one text filled the places


class DenseLeg:
    """Cosine neighbours: vectors compared one by one, or the HNSW graph when most of a large tenant matches."""

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
        """The best *depth* chunks, or as many as the tenant's tuning says, *within* given ones if there are.

        The score is the cosine similarity.

        Raises IndexMismatch when the index was made by an embedder that is not here.
        """
        name = next(iter(self._embedders))
        while True:
            vector = await self._embedders[name].embed_query(question.text)
            async with self._database.snapshot(tenant_id) as tx:
                state = await index_state(tx, question.scope.index)
                maker = state.recipe.embedder if state.recipe else name
                if maker == name:
                    way = await self._ways.of(tx, question.scope, state) if within is None else _Way.SCOPED
                    search = _Search(tx, question.scope, vector, state=state, within=within)
                    found = await search.nearest(state.tuning.depth or depth, way)
                    pairs = [(content, 1 - distance) for content, distance in found]
                    result = LegResult.of(pairs, index_version=state.index_version, generation=state.generation)
                    return replace(result, fits=self._fits(name, question, state), tuning=state.tuning)
            check_embedder(maker, self._embedders)
            name = maker

    def _fits(self, name: str, question: Question, state: IndexState) -> bool:
        """Whether the embedder knows the question's language, or knows the documents better than words do.

        Words find nothing in documents of other languages only, where even a model of one language finds something.
        """
        langs = self._embedders[name].langs
        return langs is None or (asked := language(question.text)) is None or asked in langs or asked not in state.langs


class _Way(Enum):
    """How to compare vectors: those in scope, all to look up which are in scope, or those the graph leads to."""

    SCOPED = "scoped"
    SIFTED = "sifted"
    GRAPH = "graph"


class _Ways:
    """Which way is the quickest: found out once a minute for a scope and a version of the tenant's index.

    Meanwhile a document may become valid, or the tables be analysed: each way finds enough even then.
    """

    def __init__(self, exact_below: int, clock: Callable[[], float]) -> None:
        self._exact_below = exact_below
        self._clock = clock
        self._known: dict[object, tuple[_Way, float]] = {}

    async def of(self, tx: TenantTx, scope: Scope, state: IndexState) -> _Way:
        if state.alive <= min(FEW, self._exact_below):
            return _Way.SCOPED
        key = (tx.tenant_id, state.generation, state.index_version, scope.groups, scope.filter, scope.as_of.date())
        known, until = self._known.get(key, (_Way.SCOPED, 0.0))
        if self._clock() < until:
            return known
        known = await self._found_out(tx, scope, state)
        self._known[key] = known, self._clock() + REMEMBERED_S
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return known

    async def _found_out(self, tx: TenantTx, scope: Scope, state: IndexState) -> _Way:
        matching = await count_matching(tx, scope)
        # an index walk passes by nearly all it finds when most of its rows are another tenant's, or filtered away
        if state.graphed and matching > self._exact_below and 2 * matching > await partition_rows(tx):
            return _Way.GRAPH
        return _Way.SIFTED if SIFTED_SHARE * matching > state.alive else _Way.SCOPED


class _Search:
    """One question's search in one snapshot."""

    def __init__(
        self, tx: TenantTx, scope: Scope, vector: Vectors, *, state: IndexState, within: Ordinals | None
    ) -> None:
        self._tx = tx
        self._scope = scope
        self._vector = vector
        self._state = state
        self._within = within

    async def nearest(self, depth: int, way: _Way) -> list[tuple[ContentId, float]]:
        """The *depth* nearest that say different things."""
        limit = depth
        while True:
            found = await self._rows(limit, way)
            distinct: dict[ContentId, float] = {}
            for content, distance in found:
                distinct.setdefault(content, distance)
            if len(distinct) >= depth or len(found) < limit:
                return list(distinct.items())[:depth]
            limit *= DEEPER

    async def _rows(self, limit: int, way: _Way) -> list[tuple[ContentId, float]]:
        asked = {"generation": self._state.generation, "limit": limit}
        if self._within is not None:
            return await nearest_among(self._tx, self._scope, self._vector, self._within, **asked)
        found: list[tuple[ContentId, float]] = []
        if way is _Way.GRAPH:
            found = await nearest_indexed(self._tx, self._scope, self._vector, chunks=self._state.alive, **asked)
        elif way is _Way.SIFTED:
            found = await nearest_sifted(self._tx, self._scope, self._vector, **asked)
        return found if len(found) == limit else await nearest_exact(self._tx, self._scope, self._vector, **asked)
