"""`rag tenant`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rag.commands.opened import settings, show, with_store
from rag.commands.ranking import changes, lines
from rag.commands.tables import table
from rag.errors import Conflict, InvalidInput, NotFound
from rag.settings import load_settings
from rag.store.compaction import numbering, renumber
from rag.store.engine import Database
from rag.store.neighbours import graph_if_large
from rag.store.opening import tenants_of_all
from rag.store.tenancy import create_tenant, delete_tenant, find_tenant
from rag.store.tuning import tune as tune_tenant
from rag.telling import counted

MAX_NAME = 100  # characters of a tenant's name


def create(arguments: argparse.Namespace) -> None:
    """Make a tenant."""

    async def run(database: Database) -> None:
        try:
            await create_tenant(database, arguments.name)
        except Conflict:
            if not arguments.if_missing:
                raise
        show(f"tenant {arguments.name}")

    if not arguments.name.strip() or len(arguments.name) > MAX_NAME or not arguments.name.isprintable():
        raise InvalidInput(f"a tenant's name has 1 to {MAX_NAME} printable characters")
    with_store(run)


def show_all(_: argparse.Namespace) -> None:
    """Show every tenant, and how many documents it has."""
    found = asyncio.run(tenants_of_all(settings()))
    show(table(["tenant", "documents"], found) if found else "there is no tenant; `rag tenant create NAME` makes one")


def tune(arguments: argparse.Namespace) -> None:
    """Change how a tenant is searched, and show it."""

    async def run(database: Database) -> None:
        tuning = await tune_tenant(database, arguments.name, changes(arguments))
        show(lines(tuning, load_settings().ranking))

    with_store(run)


def ranking(arguments: argparse.Namespace) -> None:
    """Show how a tenant is searched."""

    async def run(database: Database) -> None:
        show(lines(await tune_tenant(database, arguments.name, {}), load_settings().ranking))

    with_store(run)


def compact(arguments: argparse.Namespace) -> None:
    """Compact a tenant's indexes, and number its chunks anew."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.name)
        async with database.tenant(tenant) as tx:
            before = await numbering(tx)
            await renumber(tx)
            after = await numbering(tx)
        await graph_if_large(database, tenant)
        numbers = f"numbers in use: {before.next_ord} before, {after.next_ord} now"
        show(f"tenant {arguments.name}: {counted(after.alive, 'chunk')}; {numbers}")

    with_store(run)


def delete(arguments: argparse.Namespace) -> None:
    """Delete a tenant and all it has."""

    async def run(database: Database) -> None:
        try:
            went = await delete_tenant(database, arguments.name)
        except NotFound:
            if not arguments.if_exists:
                raise
            show(f"no tenant {arguments.name}")
        else:
            show(f"no tenant {arguments.name} any more; {counted(went, 'document')} went with it")

    if sys.stdin.isatty() and not arguments.yes:  # a script has nobody to ask
        _refuse_unless_typed(arguments.name)
    with_store(run)


def _refuse_unless_typed(name: str) -> None:
    sys.stderr.write(f"tenant {name} and everything it has will be deleted. Type its name to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise InvalidInput("that is not its name; nothing was deleted")
