"""`rag ingest`: paths into a tenant, with progress, and an honest account at the end."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from ingest.bar import bar
from ingest.mirror import delete_gone, refuse_another_directory, survey
from ingest.patience import patiently
from ingest.pipeline import Pipeline, Result
from ingest.report import report, report_plan
from ingest.run import Run
from ingest.sandbox import Sandbox
from ingest.sources import Found, Listing, find_all, find_files, find_rows, may_be_rows
from ingest.worker import Worker
from rag.inference.opening import open_embedders
from rag.settings import Settings, load_settings
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.store.tenancy import find_tenant
from rag.telemetry import Metrics, configure_logging
from rag.values import TenantId

FOLDER = "default"  # of a tenant that is fed from one directory
INTERRUPTED = 130  # as shells have it: 128 and the number of the signal
MAX_FOLDER = 100  # characters of its name


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every document is stored, 1 when one failed, 130 when it was interrupted."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if wrong := _wrong(arguments):
        parser.error(wrong)
    settings = load_settings()
    configure_logging(settings.log_level)
    try:
        return asyncio.run((_sync if arguments.sync else _run)(arguments, settings))
    except KeyboardInterrupt:  # what became of the documents is told, if there were any yet
        sys.stderr.write("interrupted; the same command goes on\n")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rag ingest", description="Ingest files, folders or JSONL into a tenant.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    parser.add_argument("--tenant", required=True, help="the tenant's name")
    parser.add_argument("--jsonl", action="store_true", help="the files are JSONL with _id, title, text[, metadata]")
    parser.add_argument(
        "--keep-history", action="store_true", help="keep the versions before, for questions as of then"
    )
    parser.add_argument("--no-wait", action="store_true", help="put them into the queue for `rag worker`, and end")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON line")
    parser.add_argument(
        "--folder", default=FOLDER, metavar="NAME", help="the tenant's folder they go to (default: %(default)s)"
    )
    parser.add_argument(
        "--sync", action="store_true", help="make the folder equal to the directory: delete what is not there any more"
    )
    parser.add_argument("--dry-run", action="store_true", help="with --sync: say what would be done, and do nothing")
    parser.add_argument(
        "--delete-all", action="store_true", help="with --sync: also when none of the folder's documents is there"
    )
    return parser


def _wrong(arguments: argparse.Namespace) -> str:
    """What is wrong with the command line, empty when nothing is."""
    if not arguments.folder.strip() or len(arguments.folder) > MAX_FOLDER or not arguments.folder.isprintable():
        return f"--folder takes 1 to {MAX_FOLDER} printable characters"
    if not arguments.sync:
        return "--dry-run and --delete-all go with --sync" if arguments.dry_run or arguments.delete_all else ""
    if len(arguments.paths) > 1:
        return "--sync takes one directory: names in a folder are relative to it"
    if arguments.jsonl or arguments.no_wait:
        return "--sync takes a directory, and waits: it goes with neither --jsonl nor --no-wait"
    return ""


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    started = time.perf_counter()
    listing = Listing() if arguments.jsonl else find_files(arguments.paths)
    found = find_rows(arguments.paths) if arguments.jsonl else listing.found
    _say_what_is_not_read(listing)
    _say_what_may_be_rows(listing)
    async with open_store(settings) as database:
        tenant = await find_tenant(database, arguments.tenant)
        run = Run(database, tenant, folder=arguments.folder, keep_history=arguments.keep_history)
        run.results += listing.unlisted
        try:
            if arguments.no_wait:
                await run.enqueue(found)
            else:
                await _work(run, found, settings)
        finally:  # what is stored is stored, whatever ended the run
            failed = await report(run, time.perf_counter() - started, as_json=arguments.json)
    return int(failed)


async def _sync(arguments: argparse.Namespace, settings: Settings) -> int:
    started = time.perf_counter()
    listing = find_all(arguments.paths[0], perhaps_none=arguments.delete_all)
    _say_what_is_not_read(listing)
    async with open_store(settings) as database:
        tenant = await find_tenant(database, arguments.tenant)
        surveyed = await survey(database, tenant, listing, folder=arguments.folder)
        if not arguments.delete_all:
            refuse_another_directory(surveyed, arguments.folder)
        if arguments.dry_run:
            return int(report_plan(surveyed, as_json=arguments.json))
        run = Run(database, tenant, folder=arguments.folder, keep_history=arguments.keep_history, deleted=0, renamed=0)
        run.results += [*surveyed.failures, *(Result(name, "unchanged") for name in surveyed.plan.unchanged)]
        try:
            if surveyed.to_ingest:
                await _work(run, surveyed.to_ingest, settings)
            await delete_gone(run, surveyed.plan, arguments.folder)
        finally:
            failed = await report(run, time.perf_counter() - started, as_json=arguments.json)
    return int(failed)


def _say_what_is_not_read(listing: Listing) -> None:
    if skipped := listing.other_kinds():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        sys.stderr.write(f"not read: {kinds}\n")


def _say_what_may_be_rows(listing: Listing) -> None:
    if names := [found.external_id for found in listing.found if may_be_rows(found)]:
        more = f" and {len(names) - 1} more" if names[1:] else ""
        sys.stderr.write(f"taken for one document: {names[0]}{more}; --jsonl makes one of each row\n")


async def _work(run: Run, found: Iterable[Found], settings: Settings) -> None:
    with bar("ingesting") as move:

        def show(run: Run) -> None:
            total = len(run.results) + run.enqueued
            move(total - run.progress.waiting, total, run.progress.chunks)

        async with _worker(run.database, run.tenant, settings) as pipeline:
            enqueuing = asyncio.create_task(run.enqueue(found))
            try:
                await run.follow(enqueuing, show, partial(pipeline.check, run.tenant))
            finally:
                enqueuing.cancel()
            await enqueuing


@asynccontextmanager
async def _worker(database: Database, tenant: TenantId, settings: Settings) -> AsyncIterator[Pipeline]:
    """The pipeline of a worker for the tenant's jobs, which works as long as the block runs.

    Raises IndexMismatch when it could not write to the tenant's index.
    """
    async with open_embedders(settings) as embedders, Sandbox() as sandbox:
        pipeline = Pipeline(database, embedders, sandbox.parse)
        await patiently(partial(pipeline.check, tenant))
        worker = Worker(database, pipeline, Metrics(), random.Random(), only=tenant)  # noqa: S311 - jitter
        working = asyncio.create_task(worker.run())
        try:
            yield pipeline
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
