"""`rag ingest`: paths into a tenant, with progress, and an honest account at the end."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ingest.pipeline import Pipeline, Result, Source
from ingest.sandbox import Sandbox
from ingest.sources import Found, find_files, find_rows, load, other_kinds, refuse_repeated
from rag.inference.opening import open_embedder
from rag.settings import Settings, load_settings
from rag.store.compaction import compact_if_due
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.store.tenancy import find_tenant
from rag.values import TenantId

BATCH_DOCUMENTS = 32  # written in one transaction: few posting blocks, a bar that moves, little to repeat
BATCH_BYTES = 512 * 1024


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every document is stored, 1 when one failed."""
    arguments = _parser().parse_args(argv)
    return asyncio.run(_run(arguments, load_settings()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rag ingest", description="Ingest files, folders or JSONL into a tenant.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    parser.add_argument("--tenant", required=True, help="the tenant's name")
    parser.add_argument("--jsonl", action="store_true", help="the files are JSONL with _id, title, text[, metadata]")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON line")
    return parser


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    found = (find_rows if arguments.jsonl else find_files)(arguments.paths)
    started = time.perf_counter()
    if not arguments.jsonl and (skipped := other_kinds(arguments.paths)):
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(skipped.items()))
        sys.stderr.write(f"not read: {kinds}\n")
    results: list[Result] = []
    try:
        async with open_store(settings) as database:
            tenant = await find_tenant(database, arguments.tenant)
            embedder = await asyncio.to_thread(open_embedder, settings)
            async with Sandbox() as sandbox:
                pipeline = Pipeline(database, embedder, sandbox.parse)
                await _ingest(database, pipeline, tenant, found=found, results=results)
    finally:  # what is stored is stored, whatever ended the run
        if results:
            _report(results, time.perf_counter() - started, as_json=arguments.json)
    return int(any(result.state == "failed" for result in results))


async def _ingest(
    database: Database, pipeline: Pipeline, tenant: TenantId, *, found: Sequence[Found], results: list[Result]
) -> None:
    seen: set[str] = set()
    with _progress() as progress:
        task = progress.add_task("ingesting", total=len(found))
        for batch in _batches(found):
            loaded = [refuse_repeated(load(item), seen) for item in batch]
            sources = [item for item in loaded if isinstance(item, Source)]
            results += [item for item in loaded if isinstance(item, Result)]
            results += await pipeline.ingest(tenant, sources)
            progress.advance(task, len(batch))
    async with database.tenant(tenant) as tx:
        await compact_if_due(tx)


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _batches(found: Sequence[Found]) -> Iterator[list[Found]]:
    batch: list[Found] = []
    size = 0
    for item in found:
        batch.append(item)
        size += len(item.line) if item.row is not None else _size(item.path)
        if len(batch) == BATCH_DOCUMENTS or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it will say so
        return 0


def _report(results: Sequence[Result], seconds: float, *, as_json: bool) -> None:
    failures = [r for r in results if r.state == "failed"]
    summary = {
        "files": len(results),
        "done": sum(r.state == "done" for r in results),
        "failed": len(failures),
        "unchanged": sum(r.state == "unchanged" for r in results),
        "chunks": sum(r.chunks for r in results),
        "seconds": round(seconds, 2),
    }
    for result in results:
        for warning in result.warnings:
            sys.stderr.write(f"warning: {result.external_id}: {warning}\n")
    for failure in failures:
        reason = failure.reason.removeprefix(f"{failure.external_id}: ")  # it names the document itself, for jobs
        sys.stderr.write(f"failed: {failure.external_id}: {reason} ({failure.code})\n")
    if as_json:
        listed = [{"path": f.external_id, "code": f.code, "reason": f.reason} for f in failures]
        sys.stdout.write(json.dumps({**summary, "failures": listed}) + "\n")
    else:
        sys.stdout.write(
            "{files} documents: {done} ingested, {unchanged} unchanged, {failed} failed; "
            "{chunks} chunks in {seconds} s\n".format(**summary)
        )


if __name__ == "__main__":
    raise SystemExit(main())
