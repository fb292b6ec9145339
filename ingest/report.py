"""What a run says of itself: an honest account at the end."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ingest.mirror import Survey
from ingest.pipeline import Result
from ingest.run import Run
from ingest.sources import UNREADABLE
from rag.telling import counted


async def report(run: Run, seconds: float, *, as_json: bool) -> bool:
    """Whether a document failed; the failures and warnings are on standard error, the summary on standard output."""
    remarks = [*run.results, *await run.remarks()]
    failures = [result for result in remarks if result.state == "failed"]
    for result in remarks:
        for warning in result.warnings:
            sys.stderr.write(f"warning: {result.external_id}: {warning}\n")
    _name(failures)
    if run.deleted is not None:
        _say_whether_whole(failures)
    _say_what_moves(run, {failure.external_id for failure in failures})
    if later := run.progress.cancelled:
        sys.stderr.write(f"{later} documents were cancelled, or uploaded again meanwhile and stored by that\n")
    if waiting := run.progress.waiting:
        total = len(run.results) + run.enqueued
        verb = "waits" if waiting == 1 else "wait"
        sys.stderr.write(
            f"{total - waiting} of {total} done; {counted(waiting, 'document')} {verb} in the queue: the same command,"
            " `rag worker` or `rag serve` goes on\n"
        )
    summary = _summary(run, len(failures), seconds)
    if as_json:
        listed = [{"path": f.external_id, "code": f.code, "reason": _reason(f)} for f in failures]
        sys.stdout.write(json.dumps({**summary, "failures": listed}) + "\n")
    else:
        gone = "" if run.deleted is None else ", {deleted} deleted, {renamed} renamed"
        left = ", {waiting} waiting" if waiting else ""
        told = "{done} ingested, {unchanged} unchanged, {failed} failed" + gone + left
        told = f"{counted(len(run.results) + run.enqueued, 'document')}: {told}; {{chunks}} chunks in {{seconds}} s\n"
        sys.stdout.write(told.format(**summary))
    return bool(failures)


def report_plan(survey: Survey, *, as_json: bool) -> bool:
    """Whether a file could not be used; what a sync would do is on standard output, a line for each document."""
    plan = survey.plan
    _name(survey.failures)
    _say_whether_whole(survey.failures)
    if as_json:
        told = {"new": plan.new, "changed": plan.changed, "renamed": plan.renamed, "deleted": plan.deleted}
        sys.stdout.write(json.dumps({**told, "unchanged": len(plan.unchanged)}) + "\n")
        return bool(survey.failures)
    renamed = [f"{old} -> {new}" for old, new in plan.renamed]
    kinds = {"new": plan.new, "changed": plan.changed, "renamed": renamed, "deleted": plan.deleted}
    for kind, names in kinds.items():
        sys.stdout.writelines(f"{kind} {name}\n" for name in names)
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
    sys.stdout.write(f"{counts}, {len(plan.unchanged)} unchanged; that is what would be done, nothing was changed\n")
    return bool(survey.failures)


def _name(failures: Iterable[Result]) -> None:
    for failure in failures:
        sys.stderr.write(f"failed: {failure.external_id}: {_reason(failure)} ({failure.code})\n")


def _reason(failure: Result) -> str:
    """The reason without the document's name, which jobs say and lists show anyhow."""
    return failure.reason.removeprefix(f"{failure.external_id}: ")


def _say_whether_whole(failures: Iterable[Result]) -> None:
    if any(failure.code == UNREADABLE for failure in failures):
        sys.stderr.write("nothing is deleted, since a file could not be read; the same command again goes on\n")


def _say_what_moves(run: Run, failed: AbstractSet[str]) -> None:
    left = Counter(holder for name, holder in run.moved.items() if name not in failed)
    for holder, number in left.items():
        where = "those that came over HTTP" if holder is None else f"folder {holder!r}"
        sys.stderr.write(f"{counted(number, 'document')} moved out of {where} into folder {run.folder!r}\n")


def _summary(run: Run, failed: int, seconds: float) -> dict[str, object]:
    unchanged = sum(result.state == "unchanged" for result in run.results)
    counts: dict[str, object] = {
        "files": len(run.results) + run.enqueued,
        "done": run.progress.done,
        "failed": failed,
        "unchanged": unchanged + run.progress.unchanged,
        "chunks": run.progress.chunks,
        "seconds": round(seconds, 2),
    }
    if run.deleted is not None:
        counts |= {"deleted": run.deleted, "renamed": run.renamed}
    if run.progress.cancelled:
        counts["superseded"] = run.progress.cancelled
    if run.progress.waiting:
        counts["waiting"] = run.progress.waiting
    return counts
