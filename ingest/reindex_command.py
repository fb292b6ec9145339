"""`rag reindex`: a new index beside the one that is asked, the switch to it, the way back, and the end of the old."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from ingest.bar import Move, bar
from ingest.pipeline import CHUNKER
from ingest.reindex import Progress, Reindex
from ingest.reindex_report import Outcome, report
from ingest.reindex_suite import Judgement, groups_asked, judge
from rag.analysis import ANALYSER
from rag.errors import Conflict, IndexMismatch
from rag.inference.opening import open_embedders
from rag.protocols import Embedder
from rag.settings import Settings, load_settings
from rag.store.engine import Database
from rag.store.generations import Index, Indexes, count_missing, drop_index, indexes_of, listed, open_next
from rag.store.indexes import check_embedder
from rag.store.opening import open_store
from rag.store.tenancy import find_tenant
from rag.telling import counted
from rag.values import Recipe, TenantId

ABOUT = """\
Builds a new index from the stored documents, with the first embedder of RAG_EMBEDDER and the analyser and chunker of
this release, and then switches the tenant to it. Searches and uploads go on meanwhile; the same command goes on where
one was cut short. The index before is kept: --rollback goes back to it, --drop-old frees its room. While both are
in the HNSW graph, each of over 8,000 chunks, vectors are compared one by one, since half of the graph is of the other
index. There is no switch to an index in which a document has chunks and no vector, unless --force."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the program: what was asked, for whom, and what there is to do it with."""

    arguments: argparse.Namespace
    settings: Settings
    database: Database
    tenant: TenantId
    embedders: Mapping[str, Embedder]

    async def indexes(self) -> Indexes:
        async with self.database.tenant(self.tenant) as tx:
            return await indexes_of(tx)


def main(argv: Sequence[str] | None = None) -> int:
    """0 when the tenant's index is as it was asked for, 1 when the new one is worse by the suite or lacks vectors."""
    arguments = _parsed(argv)
    return asyncio.run(_run(arguments, load_settings()))


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("rag reindex", description=ABOUT)
    parser.add_argument("--tenant", required=True, help="the tenant's name")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON line")
    build = parser.add_argument_group("how the new index is built")
    build.add_argument("--anyway", action="store_true", help="also when the current index has the same recipe")
    build.add_argument("--restart", action="store_true", help="drop a half-built index first")
    build.add_argument("--no-switch", action="store_true", help="build and judge it, and leave the tenant as it is")
    build.add_argument(
        "--suite",
        type=Path,
        metavar="FILE",
        help="ask both indexes the tenant's golden questions; no switch to a worse index",
    )
    build.add_argument(
        "--force", action="store_true", help="switch even when the suite finds it worse or a document got no vector"
    )
    instead = parser.add_argument_group("instead of building").add_mutually_exclusive_group()
    instead.add_argument("--rollback", action="store_true", help="switch to the index below the current one")
    instead.add_argument("--drop-old", action="store_true", help="drop every index but the current one")
    arguments = parser.parse_args(argv)
    building = arguments.anyway or arguments.restart or arguments.no_switch or arguments.suite or arguments.force
    if building and (arguments.rollback or arguments.drop_old):
        parser.error("--rollback and --drop-old go with --tenant and --json alone")
    return arguments


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        embedders = {} if arguments.drop_old else await stack.enter_async_context(open_embedders(settings))
        database = await stack.enter_async_context(open_store(settings))
        tenant = await find_tenant(database, arguments.tenant)
        call = _Call(arguments, settings, database, tenant, embedders)
        work = _drop_old if arguments.drop_old else _rollback if arguments.rollback else _build
        outcome = await work(call)
    report(arguments.tenant, outcome, time.perf_counter() - started, as_json=arguments.json)
    return int(outcome.state in ("worse", "unembedded"))


async def _build(call: _Call) -> Outcome:
    arguments = call.arguments
    recipe = Recipe(next(iter(call.embedders)), ANALYSER, CHUNKER)
    indexes = await call.indexes()
    if indexes.current is None:
        return Outcome("unchanged", note="the tenant has no index yet; its first document makes one")
    if indexes.current.recipe == recipe and not arguments.anyway:
        waiting = await _waiting(call, indexes, recipe)
        note = waiting or f"nothing to do, {indexes.current} is current; --anyway builds another"
        return Outcome("unchanged", indexes.current, note=note)
    if arguments.suite:
        groups_asked(arguments.suite, arguments.tenant)  # hours of building are not for a wrong file
        check_embedder(indexes.current.recipe.embedder, call.embedders, index=indexes.current)
    if arguments.restart:
        for index in indexes.above:
            await drop_index(call.database, call.tenant, index.generation)
    async with call.database.tenant(call.tenant) as tx:
        following = await open_next(tx, recipe)
    with bar("reindexing") as move:
        building = _reindex(call, following, move)
        await building.catch_up()
        await building.tidy()
        await building.catch_up()
    return await _judged(call, building, following)


async def _waiting(call: _Call, indexes: Indexes, recipe: Recipe) -> str:
    """What there is to say of an index that stands beside the current one and is not asked, empty without one."""
    if not indexes.above:
        return ""
    beside = indexes.above[-1]
    async with call.database.tenant(call.tenant) as tx:
        missing = await count_missing(tx, beside.generation)
    state = f"lacks {counted(missing, 'document')}" if missing else "is built and waits to be switched to"
    way = "--anyway" if beside.recipe == recipe else f"RAG_EMBEDDER={beside.recipe.embedder}"
    return f"{indexes.current} is current; {beside} {state}: {way} goes on with it, --drop-old drops it"


def _reindex(call: _Call, index: Index, move: Move) -> Reindex:
    def show(now: Progress) -> None:
        move(now.documents, now.documents + now.missing, now.chunks)

    return Reindex(call.database, call.tenant, index, embedder=call.embedders[index.recipe.embedder], show=show)


async def _judged(call: _Call, building: Reindex, following: Index) -> Outcome:
    """The switch to what was built, unless its vectors, the suite or the caller are against it."""
    arguments, judgement = call.arguments, None
    if not arguments.force and (documents := await building.unembedded()):
        return _unembedded(building, following, documents)
    if arguments.suite:
        judgement = await judge(
            call.database, call.tenant, tenant=arguments.tenant, suite=arguments.suite, quiet=arguments.json
        )
    if judgement and judgement.worse and not arguments.force:
        note = f"{following} does worse in {', '.join(judgement.worse)}; it stays for a look, --force switches to it"
        return Outcome("worse", following, building.progress, judgement, note)
    if arguments.no_switch:
        return Outcome("built", following, building.progress, judgement, f"{following} is built; not switched")
    if arguments.force:
        await building.switch()
    elif documents := await building.switch_if_embedded():
        return _unembedded(building, following, documents, judgement)
    note = f"{following} is asked from now on; --rollback goes back, --drop-old frees the room of the one before"
    return Outcome("switched", following, building.progress, judgement, note)


def _unembedded(
    building: Reindex, following: Index, documents: Sequence[str], judgement: Judgement | None = None
) -> Outcome:
    note = (
        f"not switched: the embedder refused every chunk of {len(documents)} documents, {listed(documents)};"
        f" {following} stays for a look, --restart builds it anew, --force switches to it"
    )
    return Outcome("unembedded", following, building.progress, judgement, note)


async def _rollback(call: _Call) -> Outcome:
    below = (await call.indexes()).below
    if not below:
        raise Conflict("there is no index below the current one to go back to")
    target = below[-1]
    if target.recipe.analyser != ANALYSER:
        raise IndexMismatch(
            f"{target} cannot be asked by this release, whose analyser is {ANALYSER}; start the old one"
        )
    check_embedder(target.recipe.embedder, call.embedders, index=target)
    with bar("reindexing") as move:
        building = _reindex(call, target, move)
        await building.switch()
    note = f"{target} is asked again; --drop-old frees the room of the one above"
    return Outcome("switched", target, building.progress, note=note)


async def _drop_old(call: _Call) -> Outcome:
    indexes = await call.indexes()
    old = (*indexes.below, *indexes.above)
    if not old:
        return Outcome("unchanged", indexes.current, note="there is no index but the current one")
    wait_s = call.settings.request_timeout_s
    sys.stderr.write(f"waiting {wait_s:.0f} s for questions that may still be at an old index\n")
    await asyncio.sleep(wait_s)
    for index in old:
        await drop_index(call.database, call.tenant, index.generation)
    return Outcome("dropped", indexes.current, Progress(), note=f"dropped {', '.join(map(str, old))}")
