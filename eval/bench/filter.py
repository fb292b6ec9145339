"""Whether both legs find all they should under filters of any selectivity, and how fast.

Tenants of several sizes share a database. Every cell is one tenant under one filter `metadata.n < x`, in a scope that
sees all documents or, without the group and at an earlier moment, 72 % of them. The dense leg must return
min(50, matching) rows; its recall counts rows as near as the 50th nearest of all that match, every vector compared in
numpy. The lexical leg must return the rows and scores of a full scan. Some cells are asked once more right after a
fifth of the documents was deleted and a tenth replaced, without compaction or vacuum.

`min_recall` is the least mean of a cell; `min_query_recall` that of a single question.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np

from eval.bench.asking import KnownVectors, Legs, draw_queries, percentile, timed
from eval.bench.database import Server, Store, recipe_of, throwaway_server
from eval.bench.oracle import Found, Query, Scores, Truth, judge
from eval.bench.result import Result, count, table
from eval.bench.synthetic import CHUNKS_A_DOCUMENT, GROUP, LATER, NOW, Corpus, Lexicon, Mask, Space, invented
from eval.bench.synthetic import external_id as name_of
from eval.errors import CannotRun
from rag.protocols import Leg
from rag.ranking import DEPTH
from rag.store.documents import delete_document
from rag.store.indexes import index_state
from rag.store.writing import replace_documents
from rag.values import Leaf, Question, Scope, TenantId

T = TypeVar("T")

SEED = 20_260_201
SIZES = (100, 1000, 10_000, 50_000, 200_000)
QUERIES = 20
ALL, NARROW = "all", "narrow"
SCOPES = {ALL: (frozenset({GROUP}), LATER + timedelta(days=1)), NARROW: (frozenset[str](), NOW)}
SHARES = (1, 0.5, 0.1, 0.01, 0.001, 0.0001)
FRESH = (*((share, ALL) for share in SHARES), (1, NARROW), (0.1, NARROW), (0.001, NARROW))
WORN = ((1, ALL), (0.1, ALL), (0.001, ALL), (0.5, NARROW))
DELETED, REPLACED = 5, 10  # every fifth document, every tenth
BATCH = 100  # documents deleted or replaced in one transaction
HEAD = (
    *("chunks", "filter", "scope", "state", "matching", "recall", "least", "complete"),
    *("dense ms", "lexical", "lexical ms"),
)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant, and what is true of it."""

    tenant_id: TenantId
    corpus: Corpus
    truth: Truth
    queries: Sequence[Query]


@dataclass(frozen=True, slots=True)
class Cell:
    """What the legs found for the questions of one cell, and the milliseconds each question took."""

    chunks: int
    share: float
    scope: str
    state: str
    matching: int
    dense: Sequence[Found]
    lexical: Sequence[Found]
    dense_ms: Sequence[float]
    lexical_ms: Sequence[float]

    @property
    def recalls(self) -> list[float]:
        """Of the dense leg by question; none when nothing matches."""
        return [found.recall for found in self.dense if found.recall is not None]

    @property
    def recall(self) -> float | None:
        """The mean."""
        return float(np.mean(self.recalls)) if self.recalls else None

    @property
    def complete(self) -> bool:
        """Whether every question got as many rows as match."""
        return all(found.complete for found in self.dense)

    @property
    def exact(self) -> bool:
        """Whether every BM25 ranking is that of the full scan."""
        return all(found.same for found in self.lexical)

    def row(self) -> tuple[object, ...]:
        """The cell as a line of the table."""
        mean_and_least = (f"{self.recall:.4f}", f"{min(self.recalls):.4f}") if self.recall is not None else ("-", "-")
        return (
            *(f"{self.chunks:,}", self.share, self.scope, self.state, f"{self.matching:,}"),
            *mean_and_least,
            *("yes" if self.complete else "NO", f"{percentile(self.dense_ms, 50):.1f}"),
            *("exact" if self.exact else "WRONG", f"{percentile(self.lexical_ms, 50):.1f}"),
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    sizes = " ".join(map(str, SIZES))
    parser.add_argument("--sizes", type=count, nargs="+", default=SIZES, metavar="N", help=f"chunks (default: {sizes})")
    parser.add_argument("--queries", type=count, default=QUERIES, metavar="N", help="of a cell (default: 20)")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of all cells."""
    load = os.getloadavg()[0]
    with throwaway_server() as server:
        cells = asyncio.run(_run(server, arguments.sizes, arguments.queries))
    machine = {"cores": os.cpu_count(), "load_at_start_and_end": [load, os.getloadavg()[0]]}
    return Result("filter", {**figures(cells), **machine}, table(HEAD, [cell.row() for cell in cells]))


def figures(cells: Sequence[Cell]) -> dict[str, object]:
    """What the cells come to."""
    recalls = [cell.recall for cell in cells if cell.recall is not None]
    least = min((recall for cell in cells for recall in cell.recalls), default=None)
    return {
        "min_recall": round(min(recalls), 4) if recalls else None,
        "rows_complete": all(cell.complete for cell in cells),
        "lexical_exact": all(cell.exact for cell in cells),
        "min_query_recall": least,
        "cells": len(cells),
        "questions": sum(len(cell.dense) for cell in cells),
        "incomplete": sum(not found.complete for cell in cells for found in cell.dense),
        "inexact": sum(not found.same for cell in cells for found in cell.lexical),
        "slowest_dense_p50_ms": max(percentile(cell.dense_ms, 50) for cell in cells),
        "slowest_lexical_p50_ms": max(percentile(cell.lexical_ms, 50) for cell in cells),
    }


async def _run(server: Server, sizes: Sequence[int], queries: int) -> list[Cell]:
    lexicon, embedder = Lexicon(invented()), KnownVectors()
    async with server.new("filter") as store:
        tenants = [
            await _filled(store, lexicon, embedder, (number, size), queries) for number, size in enumerate(sizes)
        ]
        store.graph()
        store.settle()
        legs = Legs(store.database, embedder)
        cells = []
        for tenant in tenants:
            cells += await _ask(tenant, store, legs, (FRESH, "fresh"))
        for tenant in tenants:
            await _wear(tenant, store)
            cells += await _ask(tenant, store, legs, (WORN, "worn"))
    return cells


async def _filled(
    store: Store, lexicon: Lexicon, embedder: KnownVectors, numbered: tuple[int, int], queries: int
) -> Tenant:
    number, size = numbered
    sys.stderr.write(f"filling a tenant of {size:,} chunks\n")
    corpus = Corpus(lexicon, Space.random(SEED + number), seed=SEED + number)
    parts = list(corpus.parts(size))
    tenant = await store.fill(f"of-{size}-{number}", corpus, parts, embedder=KnownVectors.name)
    drawn = draw_queries(corpus, queries, seed=SEED + 100 + number)
    embedder.learn(drawn)
    contents = (content for part in parts for content in corpus.contents(part))
    return Tenant(tenant, corpus, Truth(parts, contents), drawn)


async def _ask(tenant: Tenant, store: Store, legs: Legs, asked: tuple[Sequence[tuple[float, str]], str]) -> list[Cell]:
    sys.stderr.write(f"asking {len(tenant.truth.chunks):,} chunks, {asked[1]}\n")
    async with store.database.tenant(tenant.tenant_id) as tx:
        total = (await index_state(tx)).posted
    if total != len(tenant.truth.chunks):
        raise CannotRun(f"the index counts {total} chunks, {len(tenant.truth.chunks)} were written")
    similarities = [tenant.truth.similarities(query) for query in tenant.queries]
    bm25 = [tenant.truth.bm25(query, total) for query in tenant.queries]
    cells = []
    for share, scope in asked[0]:
        mask = mask_of(tenant.truth, share, scope)
        groups, as_of = SCOPES[scope]
        within = Scope(groups, as_of, Leaf("metadata.n", "lt", share))
        dense, dense_ms = await _search(tenant, legs.dense, within, [(scores, mask) for scores in similarities])
        spoken = [(scores, mask & (scores > 0)) for scores in bm25]
        lexical, lexical_ms = await _search(tenant, legs.lexical, within, spoken)
        facts = (int(tenant.truth.alive.sum()), share, scope, asked[1], int(mask.sum()))
        cells.append(Cell(*facts, dense, lexical, dense_ms, lexical_ms))
    return cells


def mask_of(truth: Truth, share: float, scope: str) -> Mask:
    """The rows that a cell's filter and scope let pass."""
    mask = truth.alive & (truth.chunks.n < share)
    return mask if scope == ALL else mask & ~truth.chunks.closed & ~truth.chunks.late


async def _search(
    tenant: Tenant, leg: Leg, scope: Scope, truths: Sequence[tuple[Scores, Mask]]
) -> tuple[list[Found], list[float]]:
    found, spent = [], []
    for query, (scores, matching) in zip(tenant.queries, truths, strict=True):
        result, ms = await timed(leg(tenant.tenant_id, Question(query.text, scope), DEPTH))
        found.append(judge(result.ranked, tenant.truth.rows, scores, matching, depth=DEPTH))
        spent.append(ms)
    return found, spent


async def _wear(tenant: Tenant, store: Store) -> None:
    """Delete every fifth document and replace every tenth, as the service does."""
    documents = np.unique(tenant.truth.chunks.document)
    deleted, replaced = documents[::DELETED], documents[1::REPLACED]
    for batch in _batches(deleted.tolist()):
        async with store.database.tenant(tenant.tenant_id) as tx:
            for document in batch:
                await delete_document(tx, name_of(document))
    anew = tenant.corpus.chunks(np.repeat(replaced, CHUNKS_A_DOCUMENT))
    for prepared in _batches(tenant.corpus.prepared(anew)):
        async with store.database.tenant(tenant.tenant_id) as tx:
            await replace_documents(tx, prepared, recipe_of(KnownVectors.name))
    tenant.truth.delete([*deleted, *replaced])
    tenant.truth.append(anew, tenant.corpus.contents(anew))


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + BATCH] for at in range(0, len(items), BATCH))
