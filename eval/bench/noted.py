"""The statements that a leg sends, noted on their way: to be run again without the leg."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql
from psycopg.rows import TupleRow

from rag.store.engine import Compiled, Database, TenantTx
from rag.store.statements import statements
from rag.values import TenantId


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it went to the driver."""

    text: sql.SQL | sql.Composed
    parameters: dict[str, object]


@dataclass(slots=True)
class Notes:
    """What was sent since the notes were last taken, and every setting that was ever made for a statement."""

    statements: list[Statement] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def take(self, parameter: str) -> list[Statement]:
        """The statements with that parameter; the notes are empty then."""
        found = [statement for statement in self.statements if parameter in statement.parameters]
        self.statements.clear()
        return found


class NotingDatabase(Database):
    """A database that notes what is sent to it in snapshots."""

    def __init__(self, database: Database, notes: Notes) -> None:
        """Pass on to *database*."""
        self._inner = database
        self._notes = notes

    @asynccontextmanager
    async def snapshot(self, tenant_id: TenantId) -> AsyncIterator[TenantTx]:
        """As the database's own."""
        async with self._inner.snapshot(tenant_id) as tx:
            yield _NotingTx(tx, self._notes)


class _NotingTx(TenantTx):
    def __init__(self, tx: TenantTx, notes: Notes) -> None:
        self._inner = tx
        self._notes = notes
        self.tenant_id = tx.tenant_id

    async def fetch(self, statement: str, **parameters: object) -> list[TupleRow]:
        self._note(statements()[statement], parameters)
        return await self._inner.fetch(statement, **parameters)

    async def select(self, query: Compiled, **parameters: object) -> list[TupleRow]:
        self._note(query.text, {**query.parameters, **parameters})
        return await self._inner.select(query, **parameters)

    async def tune(self, **settings: str) -> None:
        for name, value in settings.items():  # what is switched back afterwards was on for the statement
            self._notes.settings.setdefault(name.replace("__", "."), value)
        await self._inner.tune(**settings)

    def _note(self, text: Any, parameters: dict[str, object]) -> None:
        self._notes.statements.append(Statement(text, {**parameters, "tenant_id": self.tenant_id}))
