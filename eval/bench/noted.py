"""The statements that a leg sends, noted on their way: to be run again without the leg."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from psycopg.rows import TupleRow

from rag.store.engine import Database, ReadingTx, SnapshotTx
from rag.store.messages import Asked
from rag.values import TenantId


@dataclass(slots=True)
class Notes:
    """What was asked since the notes were last taken, in how many messages."""

    statements: list[Asked] = field(default_factory=list)
    messages: int = 0

    def take(self, parameter: str) -> list[Asked]:
        """The statements with that parameter; the notes are empty then."""
        found = [statement for statement in self.statements if parameter in statement.parameters]
        self.statements.clear()
        self.messages = 0
        return found


class NotingDatabase(Database):
    """A database that notes what is asked of it by those who only read."""

    def __init__(self, database: Database, notes: Notes) -> None:
        """Pass on to *database*."""
        self._inner = database
        self._notes = notes

    @asynccontextmanager
    async def snapshot(self, tenant_id: TenantId) -> AsyncIterator[SnapshotTx]:
        """As the database's own."""
        async with self._inner.snapshot(tenant_id) as tx:
            yield _NotingTx(tx, self._notes)

    @asynccontextmanager
    async def reading(self, tenant_id: TenantId) -> AsyncIterator[ReadingTx]:
        """As the database's own."""
        async with self._inner.reading(tenant_id) as tx:
            yield _NotingTx(tx, self._notes)


class _NotingTx(SnapshotTx):
    def __init__(self, tx: ReadingTx, notes: Notes) -> None:
        self._inner = tx
        self._notes = notes
        self.tenant_id = tx.tenant_id

    async def ask(self, asked: Asked) -> list[TupleRow]:
        self._note(asked)
        return await self._inner.ask(asked)

    async def ask_all(self, *asked: Asked) -> list[list[TupleRow]]:
        self._note(*asked)
        return await self._inner.ask_all(*asked)

    def _note(self, *asked: Asked) -> None:
        tenant = {"tenant_id": self.tenant_id}
        self._notes.statements += [replace(one, parameters={**one.parameters, **tenant}) for one in asked]
        self._notes.messages += 1
