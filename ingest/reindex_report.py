"""What `rag reindex` says of what it has done."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Literal

from ingest.reindex import Progress
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
