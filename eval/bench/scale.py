"""How the time of both legs grows with a tenant, and whether other tenants cost a small one anything.

A question is asked of both legs at once, as the service does, then of each alone, without its embedding. First one
tenant alone in its database, for each of the sizes. Then a small tenant among many of its size, which share its tables,
partitions and indexes, and the very same tenant alone in a fresh database: both databases are open in one server and
asked in turns, another first each time. `small_tenant_ratio` is the median of both legs among many by that alone, meant
to be at most 1.3. `in_turn_p50_ms` is for a question to another tenant each time, whose rows nobody has just read;
`in_turn_ratio` is that by the median alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from eval.bench.asking import KnownVectors, Legs, draw_queries, percentile, timed
from eval.bench.database import Server, Store, throwaway_server
from eval.bench.oracle import Query
from eval.bench.result import Result, count, table
from eval.bench.synthetic import GROUP, NOW, Corpus, Lexicon, Space, invented
from rag.ranking import DEPTH
from rag.values import Question, Scope, TenantId

SEED = 20_260_401
SIZES = (10_000, 100_000, 200_000)
TENANTS, SMALL = 1000, 1000
QUERIES = 100
SCOPE = Scope(frozenset({GROUP}), NOW)


@dataclass(frozen=True, slots=True)
class _Tenant:
    """A tenant, and the legs over its database."""

    tenant_id: TenantId
    legs: Legs


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds by question of each leg, and of both at once."""

    dense: list[float] = field(default_factory=list)
    lexical: list[float] = field(default_factory=list)
    both: list[float] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """Medians and 95th percentiles."""
        return tuple(
            f"{percentile(spent, share):.1f}" for spent in (self.dense, self.lexical, self.both) for share in (50, 95)
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of one tenant of each size, and of a small one: alone, among many, and of those many in turn."""

    sizes: dict[int, Times]
    alone: Times
    among: Times
    in_turn: Times


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    sizes = " ".join(map(str, SIZES))
    parser.add_argument("--sizes", type=count, nargs="*", default=SIZES, metavar="N", help=f"chunks (default: {sizes})")
    parser.add_argument("--tenants", type=count, default=TENANTS, metavar="N", help="small ones (default: 1000)")
    parser.add_argument("--small", type=count, default=SMALL, metavar="N", help="chunks of each (default: 1000)")
    parser.add_argument("--queries", type=count, default=QUERIES, metavar="N", help="of each kind (default: 100)")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of all tenants."""
    load = os.getloadavg()[0]
    with throwaway_server() as server:
        bench = _Bench(server, arguments.queries)
        measured = asyncio.run(bench.measure(arguments.sizes, arguments.tenants, arguments.small))
    facts = {"tenants": arguments.tenants, "small_chunks": arguments.small, "queries": arguments.queries}
    machine = {"cores": os.cpu_count(), "load_at_start_and_end": [load, os.getloadavg()[0]]}
    return Result("scale", {**figures(measured), **facts, **machine}, details(measured))


def figures(measured: Measured) -> dict[str, object]:
    """What the times come to."""
    alone, among = percentile(measured.alone.both, 50), percentile(measured.among.both, 50)
    in_turn = percentile(measured.in_turn.both, 50)
    return {
        "small_tenant_ratio": round(among / alone, 3),
        "small_alone_p50_ms": alone,
        "small_among_many_p50_ms": among,
        "in_turn_p50_ms": in_turn,
        "in_turn_ratio": round(in_turn / alone, 3),
        "p50_ms_by_chunks": {str(size): percentile(times.both, 50) for size, times in measured.sizes.items()},
        "p95_ms_by_chunks": {str(size): percentile(times.both, 95) for size, times in measured.sizes.items()},
    }


def details(measured: Measured) -> str:
    """A table of the legs by tenant."""
    legs = (f"{leg} {share}" for leg in ("dense", "lexical", "both") for share in ("p50", "p95"))
    rows = [(f"{size:,} chunks", *times.row()) for size, times in measured.sizes.items()]
    small = {"alone": measured.alone, "among many": measured.among, "in turn": measured.in_turn}
    rows += [(f"small, {name}", *times.row()) for name, times in small.items()]
    return table(("ms", *legs), rows)


class _Bench:
    """What all measurements share."""

    def __init__(self, server: Server, queries: int) -> None:
        self._server = server
        self._number = queries
        self._lexicon = Lexicon(invented())
        self._embedder = KnownVectors()

    async def measure(self, sizes: Sequence[int], tenants: int, small: int) -> Measured:
        of_sizes = {size: await self._of_size(size) for size in sizes}
        async with self._server.new("alone") as alone, self._server.new("many") as many:
            sys.stderr.write(f"filling {tenants:,} tenants of {small:,} chunks\n")
            by_itself = await self._filled(alone, range(1), small)
            crowd = await self._filled(many, range(tenants), small)
            sys.stderr.write("asking them\n")
            for _ in range(2):  # the first time warms up
                apart, among = await self._in_turns(by_itself[0], crowd[0])
            order = [crowd[n * len(crowd) // self._number % len(crowd)] for n in range(self._number)]
            in_turn = Times()
            for tenant, query in zip(order, self._queries(), strict=True):
                await self._ask(tenant, query, in_turn)
        return Measured(of_sizes, apart, among, in_turn)

    async def _of_size(self, size: int) -> Times:
        sys.stderr.write(f"filling a tenant of {size:,} chunks\n")
        async with self._server.new("one") as store:
            [tenant] = await self._filled(store, range(1), size)
            for _ in range(2):
                times = Times()
                for query in self._queries():
                    await self._ask(tenant, query, times)
            return times

    async def _in_turns(self, apart: _Tenant, among: _Tenant) -> tuple[Times, Times]:
        times = (Times(), Times())
        for n, query in enumerate(self._queries()):
            turns = list(zip((apart, among), times, strict=True))
            for tenant, spent in turns if n % 2 else turns[::-1]:
                await self._ask(tenant, query, spent)
        return times

    async def _filled(self, store: Store, numbers: Iterable[int], size: int) -> list[_Tenant]:
        """A tenant for each number, the same for the same number; the database is at rest then."""
        legs = Legs(store.database, self._embedder)
        tenants = []
        for number in numbers:
            corpus = self._corpus(number)
            name = f"tenant-{number}"
            tenants.append(
                _Tenant(await store.fill(name, corpus, corpus.parts(size), embedder=KnownVectors.name), legs)
            )
        store.graph()
        store.settle()
        return tenants

    async def _ask(self, tenant: _Tenant, query: Query, times: Times) -> None:
        question, legs = Question(query.text, SCOPE), tenant.legs
        dense, lexical = (partial(leg, tenant.tenant_id, question, DEPTH) for leg in (legs.dense, legs.lexical))
        times.both.append((await timed(asyncio.gather(dense(), lexical())))[1])
        times.dense.append((await timed(dense()))[1])
        times.lexical.append((await timed(lexical()))[1])

    def _corpus(self, number: int) -> Corpus:
        return Corpus(self._lexicon, Space.random(SEED), seed=SEED + number)

    def _queries(self) -> list[Query]:
        queries = draw_queries(self._corpus(0), self._number, seed=SEED - 1)
        self._embedder.learn(queries)
        return queries
