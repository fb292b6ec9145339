"""Bringing a database to the schema of this code, and refusing one that cannot hold it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from rag.errors import SetupError
from rag.store.engine import CONNECT_TIMEOUT_S, Database, translated
from rag.store.schema import PROBE_TENANT, REVISION, metadata

if TYPE_CHECKING:
    from alembic.config import Config

MIN_SERVER = 16
MIN_PGVECTOR = (0, 8, 4)  # iterative scans over halfvec without known faults
_LOCK = 0x5241_4700  # one migration at a time, whoever starts first


def migrate(url: str) -> bool:
    """Whether the schema had to change to reach this code's revision.

    Raises SetupError for a server or pgvector that is too old, or a schema newer than this code.
    """
    with translated(), psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        _check_server(connection)
        if _revision(connection) == REVISION:
            return False
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        if _revision(connection) != REVISION:
            upgrade(url, "head")
    return True


def upgrade(url: str, revision: str) -> None:
    """Run the upgrades up to *revision*."""
    from alembic import command  # noqa: PLC0415 - half a second that most starts do without

    _alembic(url, lambda config: command.upgrade(config, revision))


def downgrade(url: str, revision: str) -> None:
    """Run the downgrades down to *revision*."""
    from alembic import command  # noqa: PLC0415 - as above

    _alembic(url, lambda config: command.downgrade(config, revision))


async def self_test(database: Database) -> None:
    """Return only if row-level security is in force for this process.

    Raises SetupError when a row can be read without a tenant, or a table is not under forced row-level security.
    """
    async with database.bare() as connection:
        cursor = await connection.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        if (await cursor.fetchone() or (True,))[0]:
            raise SetupError("the service's role bypasses row-level security; connect as a member of rag_app")
        cursor = await connection.execute(
            "SELECT c.relname FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
            " LEFT JOIN pg_class parent ON parent.oid = i.inhparent"
            " WHERE coalesce(parent.relname, c.relname) = ANY(%s) AND c.relkind IN ('r', 'p')"
            " AND pg_table_is_visible(c.oid) AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
            (sorted(metadata.tables),),
        )
        if open_tables := [name for (name,) in await cursor.fetchall()]:
            raise SetupError(f"row-level security is not forced on {', '.join(open_tables)}; run the migrations")
        probe = sql.SQL("SELECT count(*) FROM tenants WHERE tenant_id = {}").format(sql.Literal(PROBE_TENANT))
        if (await (await connection.execute(probe)).fetchone() or (1,))[0]:
            raise SetupError("a row can be read without a tenant; row-level security is not in force")
        await connection.execute("SELECT set_config('app.tenant_id', %s, true)", (PROBE_TENANT,))
        if not (await (await connection.execute(probe)).fetchone() or (0,))[0]:
            raise SetupError("the start-up probe row is missing, so the self-test proves nothing; run the migrations")


def _check_server(connection: psycopg.Connection) -> None:
    major = connection.info.server_version // 10_000
    if major < MIN_SERVER:
        raise SetupError(f"PostgreSQL {MIN_SERVER} or newer is needed, this server is {major}")
    row = connection.execute(
        "SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector'"
    ).fetchone()
    if row is None:
        raise SetupError("this server has no pgvector; install pgvector 0.8.4 or newer")
    version = tuple(int(part) for part in str(row[0]).split("."))
    if version < MIN_PGVECTOR:
        raise SetupError(
            f"pgvector {'.'.join(map(str, MIN_PGVECTOR))} or newer is needed, this database has {row[0]};"
            " upgrade it and run ALTER EXTENSION vector UPDATE"
        )


def _revision(connection: psycopg.Connection) -> str | None:
    row = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if not row or not row[0]:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = str(row[0]) if row else None
    if revision is not None and revision > REVISION:
        raise SetupError(f"the database is at schema {revision}, this code knows {REVISION}; run the newer release")
    return revision


def _alembic(url: str, work: Callable[[Config], None]) -> None:
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[2] / "migrations"))
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            work(config)
            connection.commit()
    except DBAPIError as exc:
        reason = str(exc.orig).strip().splitlines()[0]
        raise SetupError(
            f"the migration failed and changed nothing: {reason}; it needs a role that owns the database, may create"
            " roles, and finds pgvector installed (CREATE EXTENSION vector, once, by a superuser)"
        ) from exc
