"""`rag ingest`: paths into a tenant, with progress, and an honest account at the end."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ingest.pipeline import Pipeline
from ingest.report import bar, report
from ingest.run import Run
from ingest.sandbox import Sandbox
from ingest.sources import Found, find_files, find_rows, other_kinds
from ingest.worker import Worker
from rag.inference.opening import open_embedders
from rag.settings import Settings, load_settings
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.store.tenancy import find_tenant
from rag.telemetry import Metrics, configure_logging
from rag.values import TenantId

FOLDER = "default"  # of a tenant that is fed from one directory


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every document is stored, 1 when one failed."""
    arguments = _parser().parse_args(argv)
    settings = load_settings()
    configure_logging(settings.log_level)
    return asyncio.run(_run(arguments, settings))


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
    return parser


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    found = (find_rows if arguments.jsonl else find_files)(arguments.paths)
    started = time.perf_counter()
    if not arguments.jsonl and (skipped := other_kinds(arguments.paths)):
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(skipped.items()))
        sys.stderr.write(f"not read: {kinds}\n")
    async with open_store(settings) as database:
        tenant = await find_tenant(database, arguments.tenant)
        run = Run(database, tenant, folder=FOLDER, keep_history=arguments.keep_history)
        try:
            if arguments.no_wait:
                await run.enqueue(found)
            else:
                await _work(run, found, settings)
        finally:  # what is stored is stored, whatever ended the run
            failed = await report(run, time.perf_counter() - started, as_json=arguments.json)
    return int(failed)


async def _work(run: Run, found: Iterable[Found], settings: Settings) -> None:
    with bar() as show:
        async with _worker(run.database, run.tenant, settings):
            enqueuing = asyncio.create_task(run.enqueue(found))
            try:
                await run.follow(enqueuing, show)
            finally:
                enqueuing.cancel()
            await enqueuing


@asynccontextmanager
async def _worker(database: Database, tenant: TenantId, settings: Settings) -> AsyncIterator[None]:
    """A worker for the tenant's jobs, as long as the block runs."""
    async with open_embedders(settings) as embedders, Sandbox() as sandbox:
        pipeline = Pipeline(database, embedders, sandbox.parse)
        worker = Worker(database, pipeline, Metrics(), random.Random(), only=tenant)  # noqa: S311 - jitter
        working = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
