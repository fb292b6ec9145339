"""One `rag ingest`: documents into the queue, and their way through it until the last has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

from ingest.patience import in_tenant, patiently
from ingest.pipeline import Result, Source, changed_sources, refused
from ingest.sources import Found, load, refuse_repeated
from rag.store.engine import Database, TenantTx
from rag.store.folders import held_elsewhere
from rag.store.jobs import Remark, RunProgress, Upload, enqueue_run, run_progress, run_remarks, supersede
from rag.store.queue import BATCH_BYTES, BATCH_JOBS
from rag.values import RunId, TenantId

LOOK_S = 0.2  # between looks at the run's progress


@dataclass(slots=True)
class Run:
    """The documents of one call: `results` of those that needed no job, `enqueued` of those that have one.

    `deleted` and `renamed` count what a sync took out of the folder, None without one; `moved` has the folder, None for
    HTTP, that each document leaves for the run's.
    """

    database: Database
    tenant: TenantId
    folder: str | None = None
    keep_history: bool = False
    run_id: RunId = field(default_factory=lambda: RunId(uuid4()))
    results: list[Result] = field(default_factory=list)
    enqueued: int = 0
    progress: RunProgress = field(default_factory=RunProgress)
    deleted: int | None = None
    renamed: int | None = None
    moved: dict[str, str | None] = field(default_factory=dict)

    async def enqueue(self, found: Iterable[Found]) -> None:
        """Put every document into the queue that is not stored as it is; an earlier upload that waits is superseded."""
        seen: set[str] = set()
        for batch in _batches(found):
            loaded = [refuse_repeated(await asyncio.to_thread(load, item), seen) for item in batch]
            checked = [refused(item) or item if isinstance(item, Source) else item for item in loaded]
            self.results += [item for item in checked if isinstance(item, Result)]
            sources = [
                replace(item, folder=self.folder, keep_history=self.keep_history)
                for item in checked
                if isinstance(item, Source)
            ]
            if sources:
                put = partial(_enqueue_changed, sources=sources, run_id=self.run_id)
                changed, moved = await in_tenant(self.database, self.tenant, put)
                self.moved |= moved
                same = {source.external_id for source in sources} - changed
                self.results += [Result(name, "unchanged") for name in sorted(same)]
                self.enqueued += len(changed)

    async def follow(
        self, enqueuing: asyncio.Future[None], show: Callable[[Run], None], check: Callable[[], Awaitable[None]]
    ) -> None:
        """Return when every job of the run has ended, whoever ran it.

        Raises what *check* raises while jobs wait: that nothing here can go on with them.
        """
        while True:
            all_in = enqueuing.done()
            self.progress = await in_tenant(self.database, self.tenant, partial(run_progress, run_id=self.run_id))
            show(self)
            if all_in and not self.progress.waiting:
                return
            await patiently(check)
            await asyncio.sleep(LOOK_S)

    async def remarks(self) -> list[Result]:
        """What the jobs of the run left to say: failures, and warnings of what was stored; `progress` is then new."""

        async def look_back(tx: TenantTx) -> tuple[RunProgress, list[Result]]:
            remarks = await run_remarks(tx, self.run_id)
            return await run_progress(tx, self.run_id), [_as_result(remark) for remark in remarks]

        self.progress, found = await in_tenant(self.database, self.tenant, look_back)
        return found


def _as_result(remark: Remark) -> Result:
    return Result(
        remark.external_id,
        remark.state,
        code=remark.error_code or "",
        reason=remark.error_detail or "",
        warnings=tuple(remark.warnings),
    )


async def _enqueue_changed(
    tx: TenantTx, sources: list[Source], run_id: RunId
) -> tuple[set[str], dict[str, str | None]]:
    """The ids of those that were put into the queue, and the folders that these leave."""
    # first, so that what waits or is being written cannot come after what is compared here
    await supersede(tx, [source.external_id for source in sources])
    changed = await changed_sources(tx, sources)
    uploads = [
        Upload(s.external_id, s.content_type, s.facets, s.data, folder=s.folder, keep_history=s.keep_history)
        for s in changed
    ]
    if uploads:
        await enqueue_run(tx, uploads, run_id)
    names = {upload.external_id for upload in uploads}
    folder = next((source.folder for source in changed), None)
    return names, await held_elsewhere(tx, sorted(names), folder=folder) if folder else {}


def _batches(found: Iterable[Found]) -> Iterator[list[Found]]:
    batch: list[Found] = []
    size = 0
    for item in found:
        batch.append(item)
        size += item.size_bytes()
        if len(batch) == BATCH_JOBS or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
