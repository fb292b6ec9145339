"""The dense leg: the nearest vectors in scope, always min(depth, matching) different texts of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rag.language import language
from rag.protocols import Embedder, Ordinals, Vectors
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, check_embedder, index_state
from rag.store.search import count_matching, nearest_among, nearest_exact, nearest_indexed, partition_rows
from rag.values import ContentId, LegResult, Question, Scope, TenantId

COUNTED = 1000  # scopes whose count is remembered
DEEPER = 4  # times as many rows when copies of one text filled the places


class DenseLeg:
    """Cosine neighbours: every row compared while few match, the HNSW graph when most of a large tenant does."""

    def __init__(self, database: Database, embedders: Mapping[str, Embedder], *, exact_below: int) -> None:
        """Embed with that one of *embedders*, by name, that made the index; the first is expected.

        Up to *exact_below* matching chunks are compared one by one.
        """
        self._database = database
        self._embedders = embedders
        self._exact_below = exact_below
        self._counts = _Counts()

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
                    search = _Search(tx, question.scope, vector, state=state, within=within)
                    wanted = state.tuning.depth or depth
                    found = await search.nearest(wanted, exact_below=self._exact_below, counts=self._counts)
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


class _Counts:
    """About how many chunks match: counted once for a scope, a day, and a version of the tenant's index.

    A document may become valid during the day. Only the way of searching depends on the number, never what is found.
    """

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    async def matching(self, tx: TenantTx, scope: Scope, state: IndexState) -> int:
        key = (tx.tenant_id, state.index_version, scope.groups, scope.filter, scope.as_of.date())
        if key not in self._known:
            self._known[key] = await count_matching(tx, scope)
            if len(self._known) > COUNTED:
                del self._known[next(iter(self._known))]
        return self._known[key]


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

    async def nearest(self, depth: int, *, exact_below: int, counts: _Counts) -> list[tuple[ContentId, float]]:
        """The *depth* nearest that say different things."""
        by_graph = False
        if self._within is None and self._state.graphed and self._state.alive > exact_below:
            matching = await counts.matching(self._tx, self._scope, self._state)
            # an index walk passes by nearly all it finds when most of its rows are another tenant's, or filtered away
            by_graph = matching > exact_below and 2 * matching > await partition_rows(self._tx)
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
        asked = {"generation": self._state.generation, "limit": limit}
        if self._within is not None:
            return await nearest_among(self._tx, self._scope, self._vector, self._within, **asked)
        if by_graph:
            found = await nearest_indexed(self._tx, self._scope, self._vector, **asked)
            if len(found) == limit:
                return found
        return await nearest_exact(self._tx, self._scope, self._vector, **asked)
