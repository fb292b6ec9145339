"""What is asked of the server, and how it goes there: any number of statements in one message, with one wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

from rag.store.schema import APP_ROLE
from rag.store.statements import statements
from rag.values import TenantId

Connection = psycopg.AsyncConnection[TupleRow]
# of a connection that nobody uses; a plan made for any tenant does not use the tenant's own index
AT_REST = {"plan_cache_mode": "force_custom_plan", "enable_seqscan": "on", "enable_sort": "on"}
# where rows are found by key, the plan is the same for every tenant and takes longer to make than to carry out; made
# when the tables were small, it must still do when they are large
PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
MARK = "\n-- planned once: "  # in the text of a named statement, with the reason
WRITING = b"BEGIN"
SNAPSHOT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = b"COMMIT"
_SETTING = sql.SQL("set_config({}, {}, true)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement with its values, and the settings that its plan is made under."""

    text: sql.SQL | LiteralString
    parameters: Mapping[str, object]
    settings: Mapping[str, str] = field(default_factory=dict)


def named(statement: str, parameters: Mapping[str, object]) -> Asked:
    """A named statement."""
    text = statements()[statement]
    return Asked(text, parameters, PLANNED_ONCE if MARK in text else NO_SETTINGS)


class Line:
    """The messages of one transaction, in the service's role and for one tenant."""

    def __init__(self, connection: Connection, tenant_id: TenantId, *, begin: bytes | None = None) -> None:
        """Begin it with the first message; without *begin* each message is a transaction by itself to the server."""
        self._connection = connection
        self._tenant_id = tenant_id
        self._begin = begin
        # in each transaction: behind a pooler a session's settings would reach other clients, or not the next statement
        self._always = {"role": APP_ROLE, "app.tenant_id": str(tenant_id)}
        self._now: Mapping[str, str] = AT_REST

    async def rows(self, *asked: Asked) -> list[list[TupleRow]]:
        """The rows of each statement, all sent in one message."""
        return await self._sent(asked, last=())

    async def last_rows(self, *asked: Asked) -> list[list[TupleRow]]:
        """The rows of each statement, all sent in one message, and committed."""
        return await self._sent(asked, last=[_COMMIT])

    async def _sent(self, asked: Sequence[Asked], *, last: Sequence[bytes]) -> list[list[TupleRow]]:
        cursors = []
        async with one_message(self._connection) as message:
            if self._begin:
                message.add(self._begin)
                self._begin = None
            for one in asked:
                if changed := self._changed(one.settings):
                    message.add(_set(tuple(changed.items())))
                values = {**one.parameters, "tenant_id": self._tenant_id}
                cursors.append(await self._connection.execute(one.text, values, binary=True))
            for step in last:
                message.add(step)
        return [await cursor.fetchall() for cursor in cursors]

    def _changed(self, settings: Mapping[str, str]) -> dict[str, str]:
        """What to set for a statement that wants *settings*: those of the one before are not its own."""
        wanted = {**self._always, **AT_REST, **settings}
        changed = {name: value for name, value in wanted.items() if self._now.get(name) != value}
        self._now = {**self._now, **changed}
        return changed


class Message(psycopg.AsyncPipeline):
    """A pipeline that sends nothing before its end.

    The driver's own waits for the socket and sends with each statement, and the server is woken up for each.
    """

    def add(self, command: bytes) -> None:
        """A command that gives no rows anybody wants: nothing is made for them, as it is for a statement."""
        self.command_queue.append(partial(self.pgconn.send_query_params, command, None))
        self.result_queue.append(None)

    def _communicate_gen(self) -> PQGen[None]:
        while self.command_queue:
            self.command_queue.popleft()()  # into the buffer of libpq
        yield from ()


@asynccontextmanager
async def one_message(connection: Connection) -> AsyncIterator[Message]:
    """Whatever is executed meanwhile is sent at the end, and all results are there then."""
    connection._pipeline = message = Message(connection)
    try:
        async with message:
            yield message
    finally:
        connection._pipeline = None


@lru_cache(4096)  # tenants, and a few combinations for each
def _set(settings: tuple[tuple[str, str], ...]) -> bytes:
    calls = [_SETTING.format(name, value) for name, value in settings]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls)).as_bytes()
