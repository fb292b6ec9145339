"""`rag document`."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC

from rag.api.documents import DocumentResult, PendingDocument, document_result, pending_document
from rag.commands.opened import show, with_store
from rag.commands.tables import table
from rag.errors import InvalidInput, NotFound
from rag.storable import check_external_id, check_facets
from rag.store.documents import StoredDocument, delete_document, get_document, list_documents
from rag.store.engine import Database
from rag.store.tenancy import find_tenant
from rag.telling import counted, shortened

MOST = 10_000  # documents shown at once
EVERY: dict[str, str | None] = {"after": "", "prefix": "", "folder": None}  # what narrows a list, as it leaves all
MOST_TITLE = 40  # characters of a title in a list


def show_all(arguments: argparse.Namespace) -> None:
    """Show the tenant's documents, by external id."""

    async def run(database: Database) -> None:
        tenant = await find_tenant(database, arguments.tenant)
        narrowed = {name: getattr(arguments, name) for name in EVERY}
        async with database.reading(tenant) as tx:
            found = await list_documents(tx, None, limit=arguments.limit + 1, **narrowed)
        shown = found[: arguments.limit]
        if arguments.json:
            for document in shown:
                show(document_result(document).model_dump_json())
        elif shown:
            show(table(["document", "chunks", "updated, UTC", "folder", "title"], [_row(one) for one in shown]))
            if len(found) > len(shown):
                show(f"there are more: --after={shlex.quote(shown[-1].external_id)}")
        else:
            show(f"tenant {arguments.tenant} has no {'such ' if narrowed != EVERY else ''}document")

    if not 1 <= arguments.limit <= MOST:
        raise InvalidInput(f"--limit takes 1 to {MOST}")
    check_facets({f"--{name}": getattr(arguments, name) for name in EVERY})
    with_store(run)


def show_one(arguments: argparse.Namespace) -> None:
    """Show what is stored of a document; until its first upload is stored, how that goes."""

    async def run(database: Database) -> None:
        found = await _found(database, arguments)
        if arguments.json:
            show(found.model_dump_json())
            return
        show("\n".join(_lines(found)))
        if isinstance(found, DocumentResult):
            show(f"\n{found.text}")

    check_external_id(arguments.external_id)
    with_store(run)


def delete(arguments: argparse.Namespace) -> None:
    """Delete a document, and say what went with it."""

    async def run(database: Database) -> None:
        name = arguments.external_id
        async with database.tenant(await find_tenant(database, arguments.tenant)) as tx:
            went = await delete_document(tx, name)
        if arguments.json:
            show(json.dumps({"external_id": name, **asdict(went)}))
            return
        uploads = [counted(went.uploads, "upload") + " under way"] if went.uploads else []
        versions = [counted(went.versions, "version")] if went.versions else []
        show(f"deleted {name}: {' and '.join([*versions, *uploads])}")

    check_external_id(arguments.external_id)
    with_store(run)


async def _found(database: Database, arguments: argparse.Namespace) -> DocumentResult | PendingDocument:
    tenant = await find_tenant(database, arguments.tenant)
    async with database.tenant(tenant) as tx:
        try:
            return document_result(await get_document(tx, arguments.external_id, None, arguments.version))
        except NotFound:
            pending = await pending_document(tx, arguments.external_id) if arguments.version is None else None
            if pending is None:
                raise
            return pending


def _row(document: StoredDocument) -> list[object]:
    updated = f"{document.updated_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    title = shortened(document.title, MOST_TITLE)
    return [document.external_id, document.chunks, updated, document.folder or "", title]


def _lines(found: DocumentResult | PendingDocument) -> Iterator[str]:
    """A line for each fact that there is."""
    for name, value in found.model_dump(mode="json", exclude={"text"}).items():
        if value not in (None, [], {}, ""):
            yield f"{name:12} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
