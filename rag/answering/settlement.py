"""Writing down what ended calls used, whoever waits for it: through a lost database, many calls in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from rag.errors import StoreError, StoreUnavailable
from rag.store.engine import Database
from rag.store.ledger import Settlement, settle
from rag.telemetry import log
from rag.values import TenantId

AGAIN_S = 0.5  # between attempts to settle
DRAIN_S = 5.0  # for settlements when the service stops
MOST = 200  # settlements in one transaction, which holds the tenant's budgets


@dataclass(slots=True)
class _Desk:
    """One tenant's settlements: what ends while some are being written is written next, all at once."""

    waiting: list[tuple[Settlement, asyncio.Event]] = field(default_factory=list)
    clerk: asyncio.Task[None] | None = None


class Settler:
    """Settles calls in the background, in their order, each once."""

    def __init__(self, database: Database, grace_s: float) -> None:
        """Try for *grace_s* when the database is lost; then only the log has the settlement."""
        self._database = database
        self._grace_s = grace_s
        self._desks: dict[TenantId, _Desk] = {}

    def begin(self, tenant_id: TenantId, settlement: Settlement) -> asyncio.Event:
        """What is set when the settlement is written, or given up."""
        desk = self._desks.setdefault(tenant_id, _Desk())
        desk.waiting.append((settlement, done := asyncio.Event()))
        if desk.clerk is None:
            desk.clerk = asyncio.create_task(self._work(tenant_id, desk))
        return done

    async def drain(self) -> None:
        """Return when all is settled, or the database is still lost after a while."""
        clerks = [desk.clerk for desk in self._desks.values() if desk.clerk is not None]
        if not clerks:
            return
        _, late = await asyncio.wait(clerks, timeout=DRAIN_S)
        for clerk in late:
            clerk.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, tenant_id: TenantId, desk: _Desk) -> None:
        try:
            while desk.waiting:
                batch, desk.waiting = desk.waiting[:MOST], desk.waiting[MOST:]
                try:
                    await self._write(tenant_id, [settlement for settlement, _ in batch])
                except asyncio.CancelledError:  # only when the service stops
                    _lost([settlement for settlement, _ in (*batch, *desk.waiting)], "the service was stopped")
                    raise
                finally:
                    for _, done in batch:
                        done.set()
        finally:
            del self._desks[tenant_id]

    async def _write(self, tenant_id: TenantId, batch: Sequence[Settlement]) -> None:
        try:
            async with asyncio.timeout(self._grace_s):
                while True:
                    if await self._settled(tenant_id, batch):
                        return
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            _lost(batch, "the database cannot be reached")
        except StoreError as exc:
            if len(batch) == 1:
                _lost(batch, exc.detail)
                return
            for settlement in batch:  # one that cannot be written takes no other with it
                await self._write(tenant_id, [settlement])

    async def _settled(self, tenant_id: TenantId, batch: Sequence[Settlement]) -> bool:
        """Whether the database was there to take them."""
        try:
            await settle(self._database, tenant_id, batch)
        except StoreUnavailable as exc:
            log.warning("settlements wait", calls=len(batch), cause=exc.detail)
            return False
        return True


def _lost(settlements: Sequence[Settlement], cause: str) -> None:
    """Say what the ledger will not: all that is needed to write it by hand."""
    for settlement in settlements:
        used = [(e.attempt.number, e.attempt.target, e.attempt.usage.input, e.attempt.usage.output)
                for e in settlement.entries]  # fmt: skip
        log.error("settlement lost", operation=str(settlement.operation_id), attempts=used, cause=cause)
