"""The lexical leg: exact BM25 over the posting blocks, under any filter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rag.analysis import ANALYSER, analyse, term_id
from rag.errors import IndexMismatch
from rag.protocols import Ordinals
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, index_state
from rag.store.postings import Block
from rag.store.search import live_in_scope, posting_blocks, scoped_ords
from rag.values import ContentId, LegResult, Question, Scope, TenantId

# Candidates verified against the chunks table at a time; past these, resolving the whole scope is cheaper.
BATCHES = (128, 512, 2048)
TIES = 512  # candidates as good as the last one that are verified beside it
SAMPLE = 4096
WORTH_SAMPLING = 8 * SAMPLE  # below, sorting a part of the values takes less than looking at them twice


class LexicalLeg:
    """BM25 with OR semantics: idf times stored weight, added up by chunk ordinal, the best verified in SQL."""

    def __init__(self, database: Database) -> None:
        """Read the postings in *database*."""
        self._database = database

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        """The best *depth* chunks, or as many as the tenant's tuning says.

        None when no term of the question is known, *within* given ones all of these.
        """
        async with self._database.snapshot(tenant_id) as tx:
            state = await index_state(tx, question.scope.index)
            check_analyser(state)
            terms = query_terms(question.text, state.langs)
            blocks = await posting_blocks(tx, list(terms), generation=state.generation)
            scores = accumulate(blocks, terms, state)
            if within is not None:
                scores = narrowed(scores, within, state)
            wanted = state.tuning.depth or depth
            found = await _Verifier(tx, question.scope, state.generation).best(scores, wanted)
        result = LegResult.of(found, index_version=state.index_version, generation=state.generation)
        return replace(result, floor=0.0 if len(found) < wanted else None, tuning=state.tuning)


def check_analyser(state: IndexState) -> None:
    """Return only if the index was made with the terms that questions have.

    Raises IndexMismatch otherwise.
    """
    if state.recipe and state.recipe.analyser != ANALYSER:
        raise IndexMismatch(
            f"the tenant's index was made with analyser {state.recipe.analyser}, not {ANALYSER}; run `rag reindex`"
        )


def query_terms(text: str, langs: Sequence[str]) -> Counter[int]:
    """The ids of the question's terms and how often each stands there, in every language of the tenant."""
    found: Counter[int] = Counter()
    for lang in langs:
        found |= Counter(term_id(term) for term in analyse(text, lang))
    return found


def idf(total: int, n: int) -> float:
    """Lucene's `ln(1 + (N - n + 0.5) / (n + 0.5))`, above zero for every n <= N."""
    return math.log(1 + (total - n + 0.5) / (n + 0.5))


def accumulate(blocks: Sequence[Block], terms: Mapping[int, int], state: IndexState) -> NDArray[np.float32]:
    """The BM25 score of every ordinal, zero where no term occurs."""
    by_term: dict[int, list[Block]] = {}
    for block in blocks:
        by_term.setdefault(block.term, []).append(block)
    scores = np.zeros(state.next_ord, dtype=np.float32)
    for term in sorted(by_term):  # float sums depend on their order
        n = sum(len(block.ords) for block in by_term[term])
        factor = np.float32(terms[term] * idf(state.posted, n))
        for block in by_term[term]:
            scores[block.ords] += factor * block.weights
    return scores


def narrowed(scores: NDArray[np.float32], within: Ordinals, state: IndexState) -> NDArray[np.float32]:
    """The scores of the chunks *within*, zero elsewhere.

    What they hold in common counts as one more term: a phrase of stop words is found by itself.
    """
    kept = np.zeros_like(scores)
    kept[within] = scores[within] + np.float32(idf(state.posted, within.size))
    return kept


def best(scores: NDArray[np.float32], limit: int) -> NDArray[np.intp]:
    """The ordinals of the *limit* best scores above zero, best first; equal ones by ordinal, with some more of them.

    The more let ties at the edge be broken by chunk id, which unlike the ordinal does not depend on the ingestion.
    """
    if np.count_nonzero(scores > 0) <= limit:
        found = np.flatnonzero(scores > 0)
    else:
        least = nth_largest(scores, limit)
        above = np.flatnonzero(scores > least)
        found = np.concatenate([above, np.flatnonzero(scores == least)[: limit - above.size + TIES]])
    return found[np.lexsort((found, -scores[found]))]


def nth_largest(values: NDArray[np.float32], n: int) -> np.float32:
    """The *n*-th largest of at least *n* values, counted with repeats.

    A sample says about where it is: np.partition alone takes a quarter of a second where a million chunks share two
    scores.
    """
    while values.size > WORTH_SAMPLING:
        sample = np.sort(values[:: values.size // SAMPLE])
        guess = sample[-min(sample.size, 8 + 2 * n * sample.size // values.size)]  # rather too low than too high
        above = values[values > guess]
        if above.size < n:
            if np.count_nonzero(values >= guess) >= n:
                return np.float32(guess)
            break
        if above.size > values.size // 2:
            break
        values = above
    return np.float32(np.partition(values, -n)[-n])


class _Verifier:
    """Looks up which of the best ordinals are chunks in scope, until enough of them say different things."""

    def __init__(self, tx: TenantTx, scope: Scope, generation: int) -> None:
        self._tx = tx
        self._scope = scope
        self._generation = generation

    async def best(self, scores: NDArray[np.float32], depth: int) -> list[tuple[ContentId, float]]:
        passed: list[tuple[ContentId, float]] = []
        seen = 0
        for batch in BATCHES:
            ranked = best(scores, seen + batch)
            passed += await self._alive(scores, ranked[seen:])
            if len({content for content, _ in passed}) >= depth or ranked.size < seen + batch:
                return _distinct(passed, depth)
            seen = ranked.size
            if len(passed) * sum(BATCHES) < depth * seen:  # at this rate all the batches will not do
                break
        mask = np.zeros_like(scores)
        allowed = await scoped_ords(self._tx, self._scope, generation=self._generation)
        mask[allowed] = scores[allowed]
        limit = depth
        while True:  # copies of one text may fill the first places
            ranked = best(mask, limit)
            found = _distinct(await self._alive(mask, ranked), depth)
            if len(found) == depth or ranked.size < limit:
                return found
            limit *= 4

    async def _alive(self, scores: NDArray[np.float32], ords: NDArray[np.intp]) -> list[tuple[ContentId, float]]:
        if not ords.size:
            return []
        alive = await live_in_scope(self._tx, self._scope, ords.tolist(), generation=self._generation)
        return [(alive[o], float(scores[o])) for o in ords.tolist() if o in alive]


def _distinct(found: list[tuple[ContentId, float]], depth: int) -> list[tuple[ContentId, float]]:
    """The best of each content, ties by its id."""
    scores: dict[ContentId, float] = {}
    for content, score in found:
        scores[content] = max(score, scores.get(content, score))
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]
