"""Tenants whose indexes a worker is to look after though no job of theirs waits, as after a deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag.store.engine import Database, TenantTx
from rag.values import TenantId

DELAY_S = 5.0  # one look after many deletions
LEASE_S = 600.0  # a worker that died, or could not do it, is followed by another


@dataclass(frozen=True, slots=True)
class Upkeep:
    """A tenant to be looked after by the caller alone until *due_at*."""

    tenant_id: TenantId
    due_at: datetime


async def ask_upkeep(tx: TenantTx) -> None:
    """Let a worker look after the tenant's indexes once this transaction has committed."""
    await tx.run("ask_upkeep", delay_s=DELAY_S)


async def claim_upkeep(database: Database, only: TenantId | None = None) -> Upkeep | None:
    """A tenant that waits to be looked after, now the caller's; None when there is none."""
    async with database.worker() as tx:
        rows = await tx.fetch("claim_upkeep", only=only, lease_s=LEASE_S)
    return Upkeep(TenantId(rows[0][0]), rows[0][1]) if rows else None


async def end_upkeep(database: Database, done: Upkeep) -> None:
    """Take the tenant off the list, unless somebody has asked meanwhile."""
    async with database.tenant(done.tenant_id) as tx:
        await tx.run("end_upkeep", due_at=done.due_at)
