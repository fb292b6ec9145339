"""A tenant's folder made equal to a directory: what there is to do, and the deletions, which come last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from ingest.patience import in_tenant
from ingest.pipeline import Result
from ingest.run import Run
from ingest.sources import UNREADABLE, Found, Listing, fingerprint
from ingest.sync import Plan, plan
from rag.errors import Conflict, InvalidInput
from rag.store.compaction import compact_if_due
from rag.store.engine import Database
from rag.store.folders import delete_from_folder, folder_state, held_elsewhere
from rag.telling import counted
from rag.values import TenantId

DELETED_AT_ONCE = 256  # documents, in one transaction: writers of the tenant wait no longer than for a batch


@dataclass(frozen=True, slots=True)
class Survey:
    """The plan for a directory, the files to ingest, those that cannot be, and the folders that hold some of these."""

    plan: Plan
    to_ingest: list[Found]
    failures: list[Result]
    elsewhere: dict[str, str | None]

    @property
    def whole(self) -> bool:
        """Whether every file could be read; otherwise nothing is deleted."""
        return not any(failure.code == UNREADABLE for failure in self.failures)


async def survey(database: Database, tenant: TenantId, listing: Listing, *, folder: str) -> Survey:
    """What makes the folder equal to what is listed; every file is read, and nothing is written."""
    listed: dict[str, bytes | None] = dict.fromkeys(listing.others)
    failures: list[Result] = []
    for found in listing.found:
        read = await asyncio.to_thread(fingerprint, found, folder)
        listed[found.external_id] = read if isinstance(read, bytes) else None
        failures += [read] if isinstance(read, Result) else []
    async with database.snapshot(tenant) as tx:
        state = await folder_state(tx, folder)
        readable = [name for name, hashed in listed.items() if hashed is not None and name not in state.stored]
        elsewhere = await held_elsewhere(tx, readable, folder=folder)
    failures += [_held(name, holder) for name, holder in elsewhere.items()]
    planned = plan(listed | dict.fromkeys(elsewhere), state.stored, state.waiting)
    to_ingest = [f for f in listing.found if f.external_id in planned.written()]
    surveyed = Survey(planned, to_ingest, failures, elsewhere)
    return surveyed if surveyed.whole else replace(surveyed, plan=planned.without_deletions())


def refuse_another_directory(surveyed: Survey, folder: str) -> None:
    """Return if the directory has anything of the folder, or the folder is empty.

    Raises InvalidInput otherwise.
    """
    if not surveyed.plan.finds_nothing:
        return
    found = f"folder {folder!r} has {counted(len(surveyed.plan.deleted), 'document')} and the directory none of them"
    if surveyed.elsewhere:
        holders = {"HTTP" if holder is None else f"folder {holder!r}" for holder in surveyed.elsewhere.values()}
        raise InvalidInput(
            f"{found}: {counted(len(surveyed.elsewhere), 'document')} of the directory now belong to"
            f" {' and '.join(sorted(holders))}; nothing was changed. `rag ingest` without --sync takes them back,"
            " --folder names the folder that is to be equal to the directory"
        )
    raise InvalidInput(
        f"{found}, as when a share is not mounted or the directory is another one; nothing was changed. --folder names"
        " another folder, --delete-all deletes those documents"
    )


async def delete_gone(run: Run, planned: Plan, folder: str) -> None:
    """Delete what is not in the directory any more, after a run that stored what is; the run counts.

    The old name of a renamed document stays until the new one is stored. Nothing is deleted when the run could not
    read a file.
    """
    if any(result.code == UNREADABLE for result in run.results):
        return
    state = await in_tenant(run.database, run.tenant, partial(folder_state, folder=folder))
    gone = [*planned.deleted, *(old for old, new in planned.renamed if new in state.stored)]
    deleted: set[str] = set()
    for start in range(0, len(gone), DELETED_AT_ONCE):
        batch = gone[start : start + DELETED_AT_ONCE]
        delete = partial(delete_from_folder, external_ids=batch, folder=folder)
        deleted |= await in_tenant(run.database, run.tenant, delete)
    run.deleted = len(deleted & {*planned.deleted})
    run.renamed = len(deleted) - run.deleted
    async with run.database.tenant(run.tenant) as tx:
        await compact_if_due(tx)


def _held(name: str, holder: str | None) -> Result:
    where = "came over HTTP" if holder is None else f"is in folder {holder!r}"
    reason = f"a document of this id {where}; `rag ingest` without --sync takes it over"
    return Result(name, "failed", code=Conflict.code, reason=reason)
