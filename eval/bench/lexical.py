"""How fast the lexical leg is beside other BM25 engines on the same terms, and whether they find the same.

Ours is the leg of the service: it analyses the question and reads posting blocks by SQL, under row-level security and
with every filter, from an embedded PostgreSQL. The others are libraries with everything in memory, given the terms.
They are asked in turns, one question at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from eval.bench.corpus import Vocabulary
from eval.bench.home import throwaway_home
from eval.bench.lexical_corpus import Asked, Chunks, write_chunks, write_questions
from eval.bench.lexical_peers import PEERS, Peer, installed
from eval.bench.lexical_store import settle, store_chunks, throwaway_database
from eval.bench.result import Result, count
from eval.metrics import mean, percentile
from rag.retrieval.lexical import LexicalLeg
from rag.values import ContentId, Question, Scope, TenantId, content_id

SEED = 20_260_102
DEPTH = 50
WARM_UP = 10  # questions that do not count
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds of each question by engine, and by peer the share of its best that ours found."""

    elapsed_ms: Mapping[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    overlaps: Mapping[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    parser.add_argument("--chunks", type=count, default=100_000, metavar="N", help="default: 100000")
    parser.add_argument("--queries", type=count, default=200, metavar="N", help="default: 200")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run over a throwaway database."""
    load = os.getloadavg()[0]
    with throwaway_home() as home:
        vocabulary = Vocabulary.of_tokenizer(home.embedder / "tokenizer.json")
    chunks = write_chunks(vocabulary, arguments.chunks, seed=SEED)
    questions = write_questions(chunks, arguments.queries + WARM_UP, seed=SEED)
    peers = [peer(chunks.terms) for peer in PEERS if installed(peer)]
    missing = [peer.installed_as for peer in PEERS if not installed(peer)]
    found = asyncio.run(_measure(chunks, questions, peers))
    about = {
        "chunks": arguments.chunks,
        "queries": arguments.queries,
        "terms_a_chunk": round(sum(map(len, chunks.terms)) / len(chunks.terms), 1),
        "ours": "analyses the question; SQL, row-level security and filters on embedded PostgreSQL",
        "peers": "in memory, given the terms; tantivy's length pivot is its corpus's average, so its ranking differs",
        "missing_peers": f"{', '.join(missing)}: pip install 'rag-service[bench]'" if missing else "none",
        "cores": os.cpu_count(),
        "load_at_start_and_end": [load, os.getloadavg()[0]],
    }
    return Result("lexical", {**figures(found), **about})


def figures(found: Run) -> dict[str, object]:
    """What the run comes to: ours, then each peer with how much of its best ours found."""
    ours = found.elapsed_ms[OURS]
    shown: dict[str, object] = {"qps": _rate(ours), "p50_ms": _median(ours)}
    for name, elapsed in found.elapsed_ms.items():
        if name != OURS:
            shown[f"qps_{name}"] = _rate(elapsed)
            shown[f"p50_ms_{name}"] = _median(elapsed)
            shown[f"overlap_{name}"] = round(mean(found.overlaps[name]) or 0.0, 4)
    return shown


def overlap(ours: Sequence[int], as_good: set[int], depth: int) -> float:
    """The share of the peer's best that ours found, where any of those that tie for the last places counts."""
    return len(as_good.intersection(ours)) / (min(depth, len(as_good)) or 1)


async def _measure(chunks: Chunks, questions: Sequence[Asked], peers: Sequence[Peer]) -> Run:
    numbers = {content_id(text): number for number, text in enumerate(chunks.texts)}
    async with throwaway_database() as (database, owner_url):
        sys.stderr.write(f"storing {len(chunks.texts)} chunks\n")
        tenant = await store_chunks(database, chunks)
        await asyncio.to_thread(settle, owner_url)
        leg = LexicalLeg(database)
        await _ask_all(tenant, leg, questions[:WARM_UP], peers=peers, numbers=numbers)
        return await _ask_all(tenant, leg, questions[WARM_UP:], peers=peers, numbers=numbers)


async def _ask_all(
    tenant: TenantId,
    leg: LexicalLeg,
    questions: Sequence[Asked],
    *,
    peers: Sequence[Peer],
    numbers: Mapping[ContentId, int],
) -> Run:
    found = Run()
    for asked in questions:
        started = time.perf_counter()
        result = await leg(tenant, Question(asked.text, Scope(frozenset(), datetime.now(UTC))), DEPTH)
        found.elapsed_ms[OURS].append((time.perf_counter() - started) * 1000)
        ours = [numbers[ranked.content] for ranked in result.ranked]
        for peer in peers:
            _compare(found, peer, asked, ours=ours)
    return found


def _compare(found: Run, peer: Peer, asked: Asked, *, ours: Sequence[int]) -> None:
    started = time.perf_counter()
    peer.best(asked.terms, DEPTH)
    found.elapsed_ms[peer.name].append((time.perf_counter() - started) * 1000)
    found.overlaps[peer.name].append(overlap(ours, peer.as_good(asked.terms, DEPTH), DEPTH))


def _rate(elapsed_ms: Sequence[float]) -> float:
    return round(1000 * len(elapsed_ms) / sum(elapsed_ms), 1)


def _median(elapsed_ms: Sequence[float]) -> float:
    return round(percentile(elapsed_ms, 50) or 0.0, 2)
