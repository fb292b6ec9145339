"""A worker's look at the jobs in its hands, while a batch goes through the pipeline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress

from rag.errors import StoreUnavailable
from rag.store.engine import Database
from rag.store.queue import Begun, Progress, show_progress
from rag.values import TenantId

WATCH_S = 0.5  # between two looks: soon enough for who cancels, seldom enough to cost nothing


class JobWatch:
    """Shows how far jobs are, and learns which of them were cancelled or taken over.

    Now and then, since most take no second, and whenever a stage is over.
    """

    def __init__(self, database: Database, tenant: TenantId, jobs: Mapping[str, Begun]) -> None:
        """Watch *jobs*, by the external ids of their documents."""
        self._database = database
        self._tenant = tenant
        self._jobs = jobs
        self._next_look = 0.0
        self._stage = "parsing"
        self._progress: dict[str, Progress] = {}
        self._gone: set[str] = set()

    async def __call__(self, progress: Mapping[str, Progress]) -> AbstractSet[str]:
        """Those of the documents that are still wanted."""
        self._progress |= progress
        stage = next((at.stage for at in progress.values()), self._stage)
        if stage != self._stage or time.monotonic() >= self._next_look:
            with suppress(StoreUnavailable):  # what was embedded so far is not worth less; the next look may succeed
                await self._look()
            self._stage = stage
            self._next_look = time.monotonic() + WATCH_S
        return progress.keys() - self._gone

    async def _look(self) -> None:
        shown = [(self._jobs[name], at) for name, at in self._progress.items() if name not in self._gone]
        async with self._database.tenant(self._tenant) as tx:
            running = await show_progress(tx, shown)
        self._gone |= {name for name in self._progress if self._jobs[name].job_id not in running}
        self._progress.clear()
