"""What `rag reindex` says of itself: a bar while it builds, and what it has done."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ingest.reindex import Progress, Show
from ingest.reindex_suite import Judgement
from rag.store.generations import Index


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call: the index it was about, how it was filled and judged, and a sentence for people."""

    state: Literal["switched", "built", "worse", "unembedded", "dropped", "unchanged"]
    index: Index | None = None
    progress: Progress = field(default_factory=Progress)
    judgement: Judgement | None = None
    note: str = ""


@contextmanager
def bar() -> Iterator[Show]:
    """A bar on a terminal: documents in the new index of all that there are, chunks, their rate, time left."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[chunks]} chunks, {task.fields[rate]:.0f}/s"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Bar(*columns, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task("reindexing", total=None, chunks=0, rate=0.0)

        def show(now: Progress) -> None:
            rate = now.chunks / max(time.monotonic() - started, 1e-9)
            total = now.documents + now.missing
            shown.update(task, total=total, completed=now.documents, chunks=now.chunks, rate=rate)

        yield show


def report(tenant: str, outcome: Outcome, seconds: float, *, as_json: bool) -> None:
    """Warnings on standard error, and the summary on standard output."""
    now = outcome.progress
    for warning in now.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    if as_json:
        sys.stdout.write(json.dumps(_summary(tenant, outcome, seconds)) + "\n")
        return
    if now.documents:
        sys.stdout.write(
            f"{now.documents} documents, {now.chunks} chunks ({now.embedded} embedded, {now.reused} vectors reused,"
            f" {now.without_vector} without a vector); {seconds:.1f} s in all\n"
        )
    sys.stdout.write(outcome.note + "\n")


def _summary(tenant: str, outcome: Outcome, seconds: float) -> dict[str, object]:
    now = outcome.progress
    summary: dict[str, object] = {
        "tenant": tenant,
        "state": outcome.state,
        "index": outcome.index and outcome.index.generation,
        "recipe": outcome.index and asdict(outcome.index.recipe),
        "documents": now.documents,
        "chunks": now.chunks,
        "embedded": now.embedded,
        "reused": now.reused,
        "without_vector": now.without_vector,
        "seconds": round(seconds, 2),
        "note": outcome.note,
    }
    if outcome.judgement:
        summary["suite"] = asdict(outcome.judgement)
    return summary
