"""Folders of a tenant: the documents that came from one directory, so that they can be kept equal to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.store.answers import forget_answers
from rag.store.engine import TenantTx
from rag.store.indexes import lock
from rag.values import DocumentId, document_id


@dataclass(frozen=True, slots=True)
class FolderState:
    """What a folder has: the fingerprints of its documents, and the ids of uploads that are still under way."""

    stored: dict[str, bytes]
    waiting: frozenset[str]


async def folder_state(tx: TenantTx, folder: str) -> FolderState:
    """What the folder has, both by external id."""
    stored = {row[0]: bytes(row[1]) for row in await tx.fetch("folder_documents", folder=folder)}
    return FolderState(stored, frozenset(row[0] for row in await tx.fetch("folder_uploads", folder=folder)))


async def held_elsewhere(tx: TenantTx, external_ids: Sequence[str], *, folder: str) -> dict[str, str | None]:
    """Those of the ids that are not the folder's to take, with the folder that has them, None for HTTP."""
    return dict(await tx.fetch("held_elsewhere", external_ids=list(external_ids), folder=folder))


async def delete_from_folder(tx: TenantTx, external_ids: Sequence[str], *, folder: str) -> set[str]:
    """The ids of those of the documents that the folder had: every version of them, and every upload, is gone.

    One that came over HTTP meanwhile, or that another folder has taken over, stays.
    """
    ids = [document_id(tx.tenant_id, name) for name in external_ids]
    # before the tenant: writers lock in this order
    withdrawn = await tx.fetch("withdraw_uploads", document_ids=ids, folder=folder)
    if withdrawn:
        await tx.run("dequeue_jobs", job_ids=[row[0] for row in withdrawn])
    await lock(tx)
    versions = await tx.fetch("folder_versions", external_ids=list(external_ids), folder=folder)
    if versions:
        gone = [DocumentId(row[0]) for row in versions]
        await tx.run("delete_chunks", document_ids=gone)
        await tx.run("delete_versions", document_ids=gone)
        await forget_answers(tx, gone)
        await tx.run("give_ordinals", added=0)
    return {row[1] for row in withdrawn} | {row[1] for row in versions}
