"""`rag key`."""

from __future__ import annotations

import argparse
from datetime import UTC

from rag.commands.opened import names, show, with_store
from rag.commands.tables import table
from rag.errors import InvalidInput
from rag.store.engine import Database
from rag.store.tenancy import SCOPES, Key, create_key, find_tenant, list_keys, revoke_key


def create(arguments: argparse.Namespace) -> None:
    """Make a key and print it."""

    async def run(database: Database) -> None:
        scopes = names(arguments.scopes)
        if not scopes or not scopes <= set(SCOPES):
            raise InvalidInput(f"--scopes takes {', '.join(SCOPES)}; got {arguments.scopes!r}")
        tenant = await find_tenant(database, arguments.tenant)
        show(await create_key(database, tenant, scopes=scopes, groups=names(arguments.groups)))

    with_store(run)


def show_all(arguments: argparse.Namespace) -> None:
    """Show how each key begins, since when there is one, and what it may do."""

    async def run(database: Database) -> None:
        found = await list_keys(database, await find_tenant(database, arguments.tenant))
        if not found:
            show(f"tenant {arguments.tenant} has no key")
            return
        show(table([f"keys of {arguments.tenant}", "created, UTC", "may", "groups"], [_row(key) for key in found]))

    with_store(run)


def revoke(arguments: argparse.Namespace) -> None:
    """Have a key refused from now on."""

    async def run(database: Database) -> None:
        show(f"{await revoke_key(database, arguments.key)} is refused from now on")

    with_store(run)


def _row(key: Key) -> list[object]:
    may = ",".join(sorted(key.scopes)) if key.revoked_at is None else "revoked"
    return [key.begins, f"{key.created_at.astimezone(UTC):%Y-%m-%d %H:%M}", may, ",".join(sorted(key.groups))]
