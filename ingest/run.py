"""One `rag ingest`: documents into the queue, and their way through it until the last has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4

from ingest.pipeline import Result, Source, changed_sources, refused
from ingest.sources import Found, load, refuse_repeated
from rag.errors import StoreUnavailable
from rag.store.engine import Database, TenantTx
from rag.store.jobs import Remark, RunProgress, Upload, enqueue_run, run_progress, run_remarks, supersede
from rag.store.queue import BATCH_BYTES, BATCH_JOBS
from rag.values import RunId, TenantId

LOOK_S = 0.2  # between looks at the run's progress
OUTAGE_S = 60.0  # how long the database may be away before the run gives up; its jobs stay in the queue

T = TypeVar("T")


@dataclass(slots=True)
class Run:
    """The documents of one call: `results` of those that needed no job, `enqueued` of those that have one.

    `deleted` and `renamed` count what a sync took out of the folder, None without one.
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

    async def enqueue(self, found: Iterable[Found]) -> None:
        """Put every document into the queue that is not stored as it is; an earlier upload that waits is superseded."""
        seen: set[str] = set()
        for batch in _batches(found):
            loaded = [refuse_repeated(await asyncio.to_thread(load, item), seen) for item in batch]
            self.results += [item for item in loaded if isinstance(item, Result)]
            sources = [self._placed(item) for item in loaded if isinstance(item, Source)]
            self.results += [failed for source in sources if (failed := refused(source))]
            sources = [source for source in sources if not refused(source)]
            if sources:
                changed = await patiently(lambda sources=sources: self._enqueue(sources))  # type: ignore[misc]
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
            self.progress = await patiently(self._look)
            show(self)
            if all_in and not self.progress.waiting:
                return
            await patiently(check)
            await asyncio.sleep(LOOK_S)

    async def remarks(self) -> list[Result]:
        """What the jobs of the run left to say: failures, and warnings of what was stored; `progress` is then new."""
        self.progress, found = await patiently(self._look_back)
        return [
            Result(
                remark.external_id,
                remark.state,
                code=remark.error_code or "",
                reason=remark.error_detail or "",
                warnings=tuple(remark.warnings),
            )
            for remark in found
        ]

    def _placed(self, source: Source) -> Source:
        return Source(
            source.external_id,
            source.data,
            source.content_type,
            source.facets,
            folder=self.folder,
            keep_history=self.keep_history,
        )

    async def _enqueue(self, sources: list[Source]) -> set[str]:
        """The ids of those that were put into the queue."""
        async with self.database.tenant(self.tenant) as tx:
            return await _enqueue_changed(tx, sources, self.run_id)

    async def _look(self) -> RunProgress:
        async with self.database.tenant(self.tenant) as tx:
            return await run_progress(tx, self.run_id)

    async def _look_back(self) -> tuple[RunProgress, list[Remark]]:
        async with self.database.tenant(self.tenant) as tx:
            return await run_progress(tx, self.run_id), await run_remarks(tx, self.run_id)


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """What *work* gives, tried again while the database is away.

    Raises StoreUnavailable when it stays away.
    """
    away_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return await work()
        except StoreUnavailable:
            failed = time.monotonic()
            if away_since is None or failed - began > OUTAGE_S:  # so long at work, it had a database meanwhile
                away_since = failed
            if failed - away_since > OUTAGE_S:
                raise
            await asyncio.sleep(LOOK_S)


async def _enqueue_changed(tx: TenantTx, sources: list[Source], run_id: RunId) -> set[str]:
    # first, so that what waits or is being written cannot come after what is compared here
    await supersede(tx, [source.external_id for source in sources])
    changed = await changed_sources(tx, sources)
    uploads = [
        Upload(s.external_id, s.content_type, s.facets, s.data, folder=s.folder, keep_history=s.keep_history)
        for s in changed
    ]
    if uploads:
        await enqueue_run(tx, uploads, run_id)
    return {upload.external_id for upload in uploads}


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
