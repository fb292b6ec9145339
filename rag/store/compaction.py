"""Merging small posting blocks, dropping the ordinals of deleted chunks, and numbering the chunks anew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from psycopg.rows import TupleRow

from rag.protocols import Ordinals
from rag.store.engine import TenantTx
from rag.store.indexes import index_state, lock
from rag.store.postings import Block, merge, read
from rag.store.search import insert_blocks
from rag.store.upkeep import ask_upkeep
from rag.values import IndexChoice

RANGE_ROWS = 20_000  # posting rows read at a time: about 30 MB
CHANGED_SHARE = 5  # compact when a fifth of the postings' chunks is dead, or is new and came in many writes:
WRITES = 16  # each adds a block to each of its terms
MOST_WRITES = 2000  # whatever the share, this many blocks of a frequent term are too slow to read
# A search adds up scores in an array of all ordinals ever given. Up to so many it takes a tenth of a millisecond;
# above, the chunks are numbered anew when all but one in so many ordinals are of chunks that are gone.
SPARE_ORDS, SPARE_SHARE = 100_000, 8
MOVED_ROWS = 5000  # chunks staged at a time: about 20 MB


@dataclass(frozen=True, slots=True)
class Numbering:
    """A tenant's next ordinal, its chunks in all indexes, and how often they were numbered anew."""

    next_ord: int
    alive: int
    times: int

    @property
    def is_sparse(self) -> bool:
        """Whether searches pay for chunks that are long gone."""
        return self.next_ord > max(SPARE_ORDS, SPARE_SHARE * self.alive)


async def numbering(tx: TenantTx) -> Numbering:
    """How the tenant's chunks are numbered, as this transaction sees it; an unknown tenant has none."""
    rows = await tx.fetch("numbering")
    return Numbering(*map(int, rows[0])) if rows else Numbering(0, 0, 0)


async def compact_if_due(tx: TenantTx, index: IndexChoice | int = "current") -> bool:
    """Whether an index's postings were fragmented or dead enough to be compacted, or the tenant's ordinals sparse.

    The cost is spread: a fifth of the postings has changed, or thousands of writes went by; ordinals become sparse
    when several times as many chunks were written as there are.
    """
    if (await numbering(tx)).is_sparse:
        await lock(tx)
        if (await numbering(tx)).is_sparse:  # still: another may have held the lock to do it
            await renumber(tx)
            return True
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
    live = _ordinals(await tx.fetch("live_ords", generation=state.generation))
    await _rewrite(tx, state.generation, live, live)


async def renumber(tx: TenantTx) -> None:
    """Number the chunks of all the tenant's indexes from 0, in the order they have, and compact the postings.

    Searches go on, in what was before. Vectors of chunks that get another number leave the graph: a worker puts them
    in again, and all are compared one by one meanwhile.
    """
    await lock(tx)
    old = _ordinals(await tx.fetch("all_ords"))
    new = np.arange(old.size, dtype=np.int32)
    await _move(tx, old, int(np.count_nonzero(old == new)))
    for _, generation, *_ in await tx.fetch("indexes"):
        await _rewrite(tx, generation, old, new)
    await tx.run("numbered_anew", next_ord=old.size)


async def _move(tx: TenantTx, old: Ordinals, first: int) -> None:
    """Give the chunks and vectors from the *first* on their places in *old* as ordinals.

    From the lowest up: a place is never above its ordinal, so it is free by then.
    """
    if first < old.size and await tx.run("ungraph"):
        await ask_upkeep(tx)  # whatever becomes of this process, the graph is filled again
    await tx.fetch("let_plans_last")
    await tx.run("stage_table")
    for at in range(first, old.size, MOVED_ROWS):
        some = old[at : at + MOVED_ROWS]
        low, high = int(some[0]), int(some[-1])
        await tx.run("unstage")
        await tx.run("stage_moved", low=low, high=high, first=at)
        await tx.run("delete_moved", low=low, high=high)
        await tx.run("insert_chunks")
        await tx.run("insert_embeddings")


async def _rewrite(tx: TenantTx, generation: int, old: Ordinals, new: Ordinals) -> None:
    """Rewrite an index's postings in full blocks: ordinals of *old* as those of *new*, and no others."""
    total = (await tx.fetch("posting_rows", generation=generation))[0][0]
    for low, high in _ranges(total // RANGE_ROWS + 1):
        rows = await tx.fetch("all_postings", generation=generation, low=low, high=high)
        merged = await asyncio.to_thread(_merged, rows, old, new)
        await tx.run("delete_postings", generation=generation, low=low, high=high)
        await insert_blocks(tx, merged, generation=generation)
    await tx.run("compacted", generation=generation)


def _ordinals(rows: Sequence[TupleRow]) -> Ordinals:
    return np.fromiter((row[0] for row in rows), dtype=np.int32, count=len(rows))


def _merged(rows: Sequence[TupleRow], old: Ordinals, new: Ordinals) -> list[Block]:
    blocks = [read(*row) for row in rows]
    by_term = (list(group) for _, group in groupby(blocks, key=lambda block: block.term))
    return [block for group in by_term for block in merge(group, old, new)]


def _ranges(parts: int) -> Iterator[tuple[int, int]]:
    """The 64-bit term ids in *parts* ranges: hashes spread evenly, so the ranges hold about as many rows each."""
    edges = [-(2**63) + (2**64 * n) // parts for n in range(parts + 1)]
    return ((low, high - 1) for low, high in pairwise(edges))
