"""The lexical leg: exact BM25 over the posting blocks, under any filter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rag.analysis import analyse, term_id
from rag.store.engine import Database, TenantTx
from rag.store.postings import Block
from rag.store.search import TenantState, live_in_scope, posting_blocks, scoped_ords, tenant_state
from rag.values import ChunkId, LegResult, Question, Scope, TenantId

# Candidates verified against the chunks table at a time; past these, resolving the whole scope is cheaper.
BATCHES = (128, 512, 2048)
TIES = 512  # candidates as good as the last one that are verified beside it


class LexicalLeg:
    """BM25 with OR semantics: idf times stored weight, added up by chunk ordinal, the best verified in SQL."""

    def __init__(self, database: Database) -> None:
        """Read the postings in *database*."""
        self._database = database

    async def __call__(self, tenant_id: TenantId, question: Question, depth: int) -> LegResult:
        """The best *depth* chunks; none when no term of the question is known."""
        async with self._database.snapshot(tenant_id) as tx:
            state = await tenant_state(tx)
            terms = query_terms(question.text, state.langs)
            blocks = await posting_blocks(tx, list(terms))
            scores = accumulate(blocks, terms, state)
            found = await _best_in_scope(tx, question.scope, scores, depth=depth)
        return LegResult.of(found, state.index_version)


def query_terms(text: str, langs: Sequence[str]) -> Counter[int]:
    """The ids of the question's terms and how often each stands there, in every language of the tenant."""
    found: Counter[int] = Counter()
    for lang in langs:
        found |= Counter(term_id(term) for term in analyse(text, lang))
    return found


def idf(total: int, n: int) -> float:
    """Lucene's `ln(1 + (N - n + 0.5) / (n + 0.5))`, above zero for every n <= N."""
    return math.log(1 + (total - n + 0.5) / (n + 0.5))


def accumulate(blocks: Sequence[Block], terms: Mapping[int, int], state: TenantState) -> NDArray[np.float32]:
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


def best(scores: NDArray[np.float32], limit: int) -> NDArray[np.intp]:
    """The ordinals of the *limit* best scores above zero, best first; equal ones by ordinal, with some more of them.

    The more let ties at the edge be broken by chunk id, which unlike the ordinal does not depend on the ingestion.
    """
    positive = np.flatnonzero(scores > 0)
    if positive.size > limit:
        values = scores[positive]
        least = np.partition(values, -limit)[-limit]
        above = positive[values > least]
        positive = np.concatenate([above, positive[values == least][: limit - above.size + TIES]])
    return positive[np.lexsort((positive, -scores[positive]))]


async def _best_in_scope(
    tx: TenantTx, scope: Scope, scores: NDArray[np.float32], *, depth: int
) -> list[tuple[ChunkId, float]]:
    passed: list[tuple[ChunkId, float]] = []
    seen = 0
    for batch in BATCHES:
        ranked = best(scores, seen + batch)
        passed += await _verify(tx, scope, scores, ranked[seen:])
        if len(passed) >= depth or ranked.size < seen + batch:
            return _in_order(passed)[:depth]
        seen = ranked.size
    mask = np.zeros_like(scores)
    allowed = await scoped_ords(tx, scope)
    mask[allowed] = scores[allowed]
    return _in_order(await _verify(tx, scope, mask, best(mask, depth)))[:depth]


def _in_order(found: list[tuple[ChunkId, float]]) -> list[tuple[ChunkId, float]]:
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


async def _verify(
    tx: TenantTx, scope: Scope, scores: NDArray[np.float32], ords: NDArray[np.intp]
) -> list[tuple[ChunkId, float]]:
    if not ords.size:
        return []
    alive = await live_in_scope(tx, scope, ords.tolist())
    return [(alive[o], float(scores[o])) for o in ords.tolist() if o in alive]
