"""The dense leg: the nearest vectors in scope, always min(depth, matching) different texts of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from rag.language import language
from rag.protocols import Embedder, Ordinals, Vectors
from rag.store.engine import Database, ReadingTx, TenantTx
from rag.store.indexes import IndexState, asked_state, check_embedder, index_state, state_of
from rag.store.messages import Asked
from rag.store.search import among, count_matching, exact, indexed, nearest, pairs, partition_rows, sifted
from rag.values import ContentId, LegResult, Question, Scope, TenantId

REMEMBERED, REMEMBERED_S = 1000, 60  # scopes, and for how long it is known how to search them
FEW = 500  # chunks, which are compared in less time than it takes to count those that match
SIFTED_SHARE = 3  # one in so many in scope, or more: looking up each chunk first takes three times as long
MORE = 2  # times as many chunks as there were: then it is time to find out anew how to search them
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
            asking = _Asking(question.scope, vector, within)
            state, found = await self._search(tenant_id, name, asking, depth)
            if found is not None:
                scored = [(content, 1 - distance) for content, distance in found]
                result = LegResult.of(scored, index_version=state.index_version, generation=state.generation)
                return replace(result, fits=self._fits(name, question, state), tuning=state.tuning)
            name = state.recipe.embedder if state.recipe else name
            check_embedder(name, self._embedders)

    async def _search(
        self, tenant_id: TenantId, name: str, asking: _Asking, depth: int
    ) -> tuple[IndexState, list[tuple[ContentId, float]] | None]:
        """The index, and the *depth* nearest in it that say different things; None where another embedder made it."""
        way = None if asking.within is None else _Way.SCOPED
        guess = None if way else self._ways.guess(tenant_id, asking.scope, name)
        if guess:
            async with self._database.reading(tenant_id) as tx:
                state, found = await asking.by_guess(tx, guess, depth)
            if guess.holds(state):
                if found.whole:
                    return state, found.different
                way = _Way.SCOPED if found.short else guess.way
        async with self._database.snapshot(tenant_id) as tx:
            state = await index_state(tx, asking.scope.index)
            if state.recipe and state.recipe.embedder != name:
                return state, None
            way = way or await self._ways.of(tx, asking.scope, state)
            return state, await asking.nearest(tx, state, way, state.tuning.depth or depth)

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


@dataclass(frozen=True, slots=True)
class _Guess:
    """The index as it was when the quickest way to search it was found out."""

    state: IndexState
    way: _Way
    until: float

    def holds(self, state: IndexState) -> bool:
        """Whether the way is still good: it finds the same in the same index, but a larger one may have a quicker.

        A graph that was left is filled again little by little, and finds enough meanwhile, of what it has.
        """
        return _alike(state) == _alike(self.state) and state.alive <= MORE * self.state.alive


class _Ways:
    """Which way is the quickest: found out once a minute for a scope, and when the tenant's index has grown a lot.

    Meanwhile a document may become valid, or the tables be analysed: each way finds enough even then.
    """

    def __init__(self, exact_below: int, clock: Callable[[], float]) -> None:
        self._exact_below = exact_below
        self._clock = clock
        self._known: dict[object, _Guess] = {}

    def guess(self, tenant_id: TenantId, scope: Scope, embedder: str) -> _Guess | None:
        """What was found out last, if that was within the minute and of an index that *embedder* made."""
        known = self._known.get(_key(tenant_id, scope))
        if known is None or self._clock() >= known.until or scope.index != "current":
            return None
        return known if known.state.recipe is None or known.state.recipe.embedder == embedder else None

    async def of(self, tx: TenantTx, scope: Scope, state: IndexState) -> _Way:
        """The quickest way now."""
        key = _key(tx.tenant_id, scope)
        known = self._known.get(key)
        if known and self._clock() < known.until and _same(known.state, state):
            return known.way
        way = _Way.SCOPED
        if state.alive > min(FEW, self._exact_below):
            way = await self._found_out(tx, scope, state)
        self._known[key] = _Guess(state, way, self._clock() + REMEMBERED_S)
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return way

    async def _found_out(self, tx: TenantTx, scope: Scope, state: IndexState) -> _Way:
        matching = await count_matching(tx, scope)
        # an index walk passes by nearly all it finds when most of its rows are another tenant's, or filtered away
        if state.graphed and matching > self._exact_below and 2 * matching > await partition_rows(tx):
            return _Way.GRAPH
        return _Way.SIFTED if SIFTED_SHARE * matching > state.alive else _Way.SCOPED


def _key(tenant_id: TenantId, scope: Scope) -> object:
    return tenant_id, scope.index, scope.groups, scope.filter, scope.as_of.date()


def _alike(state: IndexState) -> object:
    return state.generation, state.recipe, state.graphed, state.tuning.depth


def _same(one: IndexState, other: IndexState) -> bool:
    return (one.generation, one.index_version) == (other.generation, other.index_version)


@dataclass(frozen=True, slots=True)
class _Asking:
    """One question to an index."""

    scope: Scope
    vector: Vectors
    within: Ordinals | None

    async def by_guess(self, tx: ReadingTx, guess: _Guess, depth: int) -> tuple[IndexState, _Found]:
        """The index, and what is near in it if it is as guessed: one message for both."""
        limit = guess.state.tuning.depth or depth
        first, rows = await tx.ask_all(asked_state(), self._asked(guess.state, guess.way, limit))
        return state_of(first), _Found(pairs(rows), limit, guess.way)

    async def nearest(self, tx: TenantTx, state: IndexState, way: _Way, depth: int) -> list[tuple[ContentId, float]]:
        """The *depth* nearest that say different things."""
        limit = depth
        while True:
            found = _Found(await nearest(tx, self._asked(state, way, limit)), limit, way)
            if found.short:
                found = _Found(await nearest(tx, self._asked(state, _Way.SCOPED, limit)), limit, _Way.SCOPED)
            if found.whole or len(found.different) >= depth:
                return found.different[:depth]
            limit *= DEEPER

    def _asked(self, state: IndexState, way: _Way, limit: int) -> Asked:
        asked = {"generation": state.generation, "limit": limit}
        if self.within is not None:
            return among(self.scope, self.vector, self.within, **asked)
        if way is _Way.GRAPH:
            return indexed(self.scope, self.vector, chunks=state.alive, **asked)
        return (sifted if way is _Way.SIFTED else exact)(self.scope, self.vector, **asked)


class _Found:
    """The nearest rows of a way, of which several may say the same."""

    def __init__(self, rows: Sequence[tuple[ContentId, float]], limit: int, way: _Way) -> None:
        """Asked for were *limit* rows."""
        nearest_of_each: dict[ContentId, float] = {}
        for content, distance in rows:
            nearest_of_each.setdefault(content, distance)
        self.different = list(nearest_of_each.items())
        fewer = len(rows) < limit
        self.short = fewer and way is not _Way.SCOPED  # another way may find more
        self.whole = len(self.different) == limit or (fewer and way is _Way.SCOPED)
