"""Merging small posting blocks and dropping the ordinals of deleted chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import TupleRow

from rag.store.engine import TenantTx
from rag.store.indexes import IndexState, index_state, lock
from rag.store.postings import Block, merge, read
from rag.store.search import insert_blocks
from rag.values import IndexChoice

RANGE_ROWS = 20_000  # posting rows read at a time: about 30 MB
CHANGED_SHARE = 5  # compact when a fifth of the postings' chunks is dead, or is new and came in many writes:
WRITES = 16  # each adds a block to each of its terms
MOST_WRITES = 2000  # whatever the share, this many blocks of a frequent term are too slow to read


async def compact_if_due(tx: TenantTx, index: IndexChoice | int = "current") -> bool:
    """Whether an index's postings were fragmented or dead enough to be compacted.

    The cost is spread: a fifth of the postings has changed, or thousands of writes went by.
    """
    state = await index_state(tx, index)
    fragmented = state.writes > WRITES and state.appended * CHANGED_SHARE > state.posted
    due = state.dead * CHANGED_SHARE > state.posted or fragmented or state.writes > MOST_WRITES
    if due:
        await compact(tx, index)
    return due


async def compact(tx: TenantTx, index: IndexChoice | int = "current") -> None:
    """Rewrite an index's postings without dead ordinals and in full blocks; scores then use live counts."""
    await lock(tx)
    state = await index_state(tx, index)
    live = await _live(tx, state)
    total = (await tx.fetch("posting_rows", generation=state.generation))[0][0]
    for low, high in _ranges(total // RANGE_ROWS + 1):
        rows = await tx.fetch("all_postings", generation=state.generation, low=low, high=high)
        merged = await asyncio.to_thread(_merged, rows, live)
        await tx.run("delete_postings", generation=state.generation, low=low, high=high)
        await insert_blocks(tx, merged, generation=state.generation)
    await tx.run("compacted", generation=state.generation, live=int(np.count_nonzero(live)))


async def _live(tx: TenantTx, state: IndexState) -> NDArray[np.bool_]:
    """By ordinal: whether there is such a chunk."""
    live = np.zeros(state.next_ord, dtype=np.bool_)
    live[[row[0] for row in await tx.fetch("live_ords", generation=state.generation)]] = True
    return live


def _merged(rows: Sequence[TupleRow], live: NDArray[np.bool_]) -> list[Block]:
    blocks = [read(*row) for row in rows]
    by_term = (list(group) for _, group in groupby(blocks, key=lambda block: block.term))
    return [block for group in by_term for block in merge(group, live)]


def _ranges(parts: int) -> Iterator[tuple[int, int]]:
    """The 64-bit term ids in *parts* ranges: hashes spread evenly, so the ranges hold about as many rows each."""
    edges = [-(2**63) + (2**64 * n) // parts for n in range(parts + 1)]
    return ((low, high - 1) for low, high in pairwise(edges))
