"""Connections: a pool in the service's role, and the two doors to it, one tenant's and the worker's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, Self

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from rag.errors import StoreError, StoreUnavailable
from rag.store.messages import AT_REST, NO_SETTINGS, PLANNED_ONCE, SNAPSHOT, WRITING, Asked, Connection, Line, named
from rag.store.schema import APP_ROLE, WORKER_ROLE
from rag.store.statements import statements
from rag.values import TenantId

CONNECT_TIMEOUT_S = 5  # a server that accepts and says nothing
LOCK_TIMEOUT = "30s"  # for another writer of the same tenant; then the caller hears of it
# in each transaction: behind a pooler a session's settings would reach other clients, or not the next statement; in
# one message with its beginning, since each is a wait
_IN_ROLE = sql.SQL("BEGIN; SELECT set_config('role', {}, true)")
_OF_TENANT = sql.SQL("BEGIN; SELECT set_config('role', {}, true), set_config('app.tenant_id', {}, true)")
_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


@dataclass(frozen=True, slots=True)
class Compiled:
    """A SQLAlchemy Core query as text for the driver, with the values bound in it."""

    text: sql.SQL
    parameters: Mapping[str, object]

    @classmethod
    def of(cls, query: ClauseElement) -> Compiled:
        """The query compiled, which takes a millisecond: worth keeping where the query does not change."""
        compiled = query.compile(dialect=_DIALECT)
        return cls(sql.SQL(str(compiled)), compiled.params)  # SQLAlchemy's own text, no value in it

    def asked(self, settings: Mapping[str, str] = NO_SETTINGS, /, **parameters: object) -> Asked:
        """The query with further values, under *settings*."""
        return Asked(self.text, {**self.parameters, **parameters}, settings)


class _PoolConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection that is closed when it does not come about in time."""

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """As the driver's, whose error keeps the socket open by its frames: once thawed, a server would serve it."""
        try:
            return await super().connect(*args, **kwargs)
        except psycopg.Error as exc:
            raise exc.with_traceback(None) from None


class TenantTx:
    """A transaction that sees one tenant's rows; every statement is given the tenant's id."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        """Wrap *connection*, on which the tenant is set."""
        self._connection = connection
        self.tenant_id = tenant_id

    async def fetch(self, statement: str, **parameters: object) -> list[TupleRow]:
        """The rows of a named statement."""
        return await self.ask(named(statement, parameters))

    async def select(self, query: Compiled, **parameters: object) -> list[TupleRow]:
        """The rows of a compiled query."""
        return await self.ask(query.asked(**parameters))

    async def ask(self, asked: Asked) -> list[TupleRow]:
        """The rows of a statement; its `tenant_id` parameter is filled in here.

        Who writes gets a plan for the rows there are now, whatever the settings.
        """
        return await (await self._execute(asked.text, asked.parameters)).fetchall()

    async def run(self, statement: str, **parameters: object) -> int:
        """The number of rows a named statement touched."""
        return (await self._execute(statements()[statement], parameters)).rowcount

    async def run_many(self, statement: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run a named statement once for each of *rows*, pipelined."""
        async with self._begun.cursor() as cursor:
            await cursor.executemany(statements()[statement], [self._with(row) for row in rows])

    async def copy(self, statement: str, types: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
        """The number of *rows* that a named COPY of columns of *types* took in."""
        count = 0
        async with self._begun.cursor() as cursor, cursor.copy(statements()[statement]) as copy:
            copy.set_types(types)
            for count, row in enumerate(rows, 1):  # noqa: B007 - the count is what is wanted
                await copy.write_row(row)
        return count

    @property
    def _begun(self) -> Connection:
        """The connection with the tenant set on it."""
        return self._connection

    async def _execute(
        self, query: sql.SQL | LiteralString, parameters: Mapping[str, object]
    ) -> psycopg.AsyncCursor[TupleRow]:
        return await self._begun.execute(query, self._with(parameters), binary=True)

    def _with(self, parameters: Mapping[str, object]) -> dict[str, object]:
        return {**parameters, "tenant_id": self.tenant_id}


class ReadingTx(TenantTx):
    """Reads only, and each time is a transaction by itself, of one message."""

    async def ask(self, asked: Asked) -> list[TupleRow]:
        """The rows of a statement."""
        [rows] = await Line(self._connection, self.tenant_id).rows(asked)
        return rows

    async def ask_all(self, *asked: Asked) -> list[list[TupleRow]]:
        """The rows of each statement, all of one moment."""
        return await Line(self._connection, self.tenant_id, begin=SNAPSHOT).last_rows(*asked)

    @property
    def _begun(self) -> Connection:
        raise StoreError("what only reads has no transaction to write in")


class SnapshotTx(ReadingTx):
    """Reads only, all of one moment; what begins the transaction goes out with the first statement."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        """Send nothing yet."""
        super().__init__(connection, tenant_id)
        self._line = Line(connection, tenant_id, begin=SNAPSHOT)

    async def ask(self, asked: Asked) -> list[TupleRow]:
        """The rows of a statement."""
        [rows] = await self._line.rows(asked)
        return rows

    async def ask_all(self, *asked: Asked) -> list[list[TupleRow]]:
        """The rows of each statement, in one message."""
        return await self._line.rows(*asked)


class LoneStatement:
    """A writing transaction of one statement for one tenant, in one message to the server.

    As in a reading, only that it is carried out once it was sent: what is written then, as what a call of a model
    cost, must not depend on whether somebody still waits for it.
    """

    def __init__(
        self, tenant_id: TenantId, pool: AsyncConnectionPool[Connection], under_way: set[asyncio.Task[list[TupleRow]]]
    ) -> None:
        """Run it on a connection of *pool*; *under_way* holds it until it is done."""
        self._tenant_id = tenant_id
        self._pool = pool
        self._under_way = under_way

    async def fetch(self, statement: str, **parameters: object) -> list[TupleRow]:
        """The rows of a named statement, committed; it is carried out also when its caller is cancelled."""
        # by key, all of them: a plan that is made once will do
        work = asyncio.create_task(self._fetch(Asked(statements()[statement], parameters, PLANNED_ONCE)))
        self._under_way.add(work)
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Task[list[TupleRow]]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # heard here, should nobody wait for it any more

    async def _fetch(self, asked: Asked) -> list[TupleRow]:
        with translated():
            async with self._pool.connection() as connection:
                [rows] = await Line(connection, self._tenant_id, begin=WRITING).last_rows(asked)
                return rows


class WorkerTx:
    """A transaction that sees the queue of every tenant, and nothing else."""

    def __init__(self, connection: Connection) -> None:
        """Wrap *connection*, which runs in the worker's role."""
        self._connection = connection

    async def fetch(self, statement: str, **parameters: object) -> list[TupleRow]:
        """The rows of a named statement."""
        cursor = await self._connection.execute(statements()[statement], parameters, binary=True)
        return await cursor.fetchall()


class Database:
    """A pool of connections whose transactions run in the service's role, which owns nothing and bypasses no policy."""

    def __init__(self, pool: AsyncConnectionPool[Connection]) -> None:
        """Use *pool*, made by `open_database`."""
        self._pool = pool
        self._under_way: set[asyncio.Task[list[TupleRow]]] = set()

    @asynccontextmanager
    async def tenant(self, tenant_id: TenantId) -> AsyncIterator[TenantTx]:
        """A transaction under row-level security for one tenant."""
        async with self._transaction(_OF_TENANT.format(APP_ROLE, str(tenant_id))) as connection:
            yield TenantTx(connection, tenant_id)

    @asynccontextmanager
    async def snapshot(self, tenant_id: TenantId) -> AsyncIterator[SnapshotTx]:
        """As `tenant`, read only, and every statement sees the same moment: counters fit the rows they count."""
        async with self._line() as connection:
            yield SnapshotTx(connection, tenant_id)

    @asynccontextmanager
    async def reading(self, tenant_id: TenantId) -> AsyncIterator[ReadingTx]:
        """As `tenant`, for a statement or two that read: each is a transaction by itself, one wait instead of three."""
        async with self._line() as connection:
            yield ReadingTx(connection, tenant_id)

    def alone(self, tenant_id: TenantId) -> LoneStatement:
        """As `tenant`, for a single statement that writes."""
        return LoneStatement(tenant_id, self._pool, self._under_way)

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[WorkerTx]:
        """A transaction in the role that may see which tenants have work waiting."""
        async with self._transaction(_IN_ROLE.format(WORKER_ROLE)) as connection:
            yield WorkerTx(connection)

    async def describe(self) -> str:
        """The server's version, pgvector's, and the role in use: what an operator asks first."""
        async with self.bare() as connection:
            cursor = await connection.execute(
                "SELECT current_setting('server_version'), extversion, current_user"
                " FROM pg_extension WHERE extname = 'vector'"
            )
            server, pgvector, role = await cursor.fetchone() or ("?", "?", "?")
        return f"PostgreSQL {server}, pgvector {pgvector}, role {role}"

    @asynccontextmanager
    async def bare(self) -> AsyncIterator[Connection]:
        """A transaction with no tenant set, for the start-up probe."""
        async with self._transaction(_IN_ROLE.format(APP_ROLE)) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, begin: sql.Composed) -> AsyncIterator[Connection]:
        with translated():
            async with self._pool.connection() as connection:  # which commits, or rolls back, what is begun here
                await connection.execute(begin, prepare=False)  # several statements cannot be prepared
                yield connection

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[Connection]:
        with translated():
            async with self._pool.connection() as connection:
                try:
                    yield connection
                finally:
                    if connection.pgconn.pipeline_status:  # who is cancelled in the middle of one leaves it to nobody
                        await connection.close()


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except psycopg.errors.ProgramLimitExceeded as exc:  # the driver counts it as operational, but it stays
        raise StoreError(_first_line(exc)) from exc
    except (psycopg.OperationalError, PoolTimeout) as exc:
        raise StoreUnavailable(f"the database cannot be used now: {_first_line(exc)}") from exc
    except psycopg.Error as exc:
        raise StoreError(_first_line(exc)) from exc


@asynccontextmanager
async def open_database(url: str, *, size: int, timeout_s: float) -> AsyncIterator[Database]:
    """A Database at *url* whose connections run as the service's role.

    Raises StoreUnavailable when no connection comes within *timeout_s*.
    """
    opening_s = max(timeout_s, 10.0)
    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        url,
        connection_class=_PoolConnection,
        min_size=min(2, size),
        max_size=size,
        timeout=timeout_s,
        # then whoever wants a connection tries at once: the pauses between the pool's own attempts double, so that it
        # would notice only minutes later that a server is back
        reconnect_timeout=opening_s,
        open=False,
        configure=_configure,
        check=_check,
        kwargs={
            "autocommit": True,
            "connect_timeout": CONNECT_TIMEOUT_S,
        },
    )
    with translated():
        await pool.open(wait=True, timeout=opening_s)
    try:
        yield Database(pool)
    finally:
        await pool.close()


async def _configure(connection: Connection) -> None:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await _set_up(connection)


async def _set_up(connection: Connection) -> None:
    await register_vector_async(connection)
    await connection.execute(sql.SQL("SET plan_cache_mode = {}").format(AT_REST["plan_cache_mode"]))
    # what is searched is in memory or on an SSD: by the default of 4, for disks with heads, all of a tenant's chunks
    # are read where a filter lets a hundred pass
    await connection.execute("SET random_page_cost = 1.1")
    await connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT)))


async def _check(connection: Connection) -> None:
    """Return only if the connection is alive, as far as it is known here: a restarted server leaves dead ones behind.

    Nobody asks the server and waits for its answer; when it went, it has closed the connection.
    """
    connection.pgconn.consume_input()


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
