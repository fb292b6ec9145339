from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from rag.errors import SetupError
from rag.store.migration import downgrade, migrate, self_test, upgrade
from rag.store.schema import PARTITIONS, REVISION, metadata
from tests.conftest import REPOSITORY, open_service_database

PARTITION = re.compile(r"(chunks|embeddings|neighbours)_\d+")
TABLES = sorted(metadata.tables)
PARTITION_TABLES = [f"{table}_{n}" for table in ("chunks", "embeddings", "neighbours") for n in range(PARTITIONS)]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def differences(url: str) -> list[object]:
    options = {"compare_type": True, "compare_server_default": True, "include_object": _is_no_partition}
    with connected(url) as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _is_no_partition(thing: Any, name: str, kind: str, *_: object) -> bool:
    if kind == "foreign_key_constraint":  # PostgreSQL keeps one more for each partition that the real one leads to
        name = thing.elements[0].column.table.name
    return not PARTITION.fullmatch(name)


def names(connection: psycopg.Connection, query: str, *parameters: object) -> list[str]:
    return [row[0] for row in connection.execute(query, parameters)]


def test_models_and_migrations_agree(database_url: str) -> None:
    found = differences(database_url)

    assert found == []


async def test_upgrade_downgrade_and_upgrade_again_lead_to_the_same_schema(clone: Callable[[], str]) -> None:
    url = clone()

    downgrade(url, "base")
    with psycopg.connect(url) as connection:
        left = names(connection, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
    upgrade(url, "head")

    assert left == ["alembic_version"]
    assert differences(url) == []
    async with open_service_database(url) as database:
        await self_test(database)


def test_the_schemas_revision_is_alembics_head() -> None:
    scripts = ScriptDirectory(str(REPOSITORY / "migrations"))

    assert scripts.get_current_head() == REVISION


def test_a_database_at_this_revision_is_left_alone(database_url: str) -> None:
    changed = migrate(database_url)

    assert changed is False


def test_a_database_of_a_newer_release_is_refused(clone: Callable[[], str]) -> None:
    url = clone()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(SetupError, match=r"9999.*newer release"):
        migrate(url)


def test_the_database_holds_the_known_tables_and_their_partitions_only(owner: psycopg.Connection) -> None:
    found = names(owner, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")

    assert found == sorted([*TABLES, *PARTITION_TABLES, "alembic_version"])


def test_every_unique_index_has_the_tenant_first(owner: psycopg.Connection) -> None:
    rows = owner.execute(
        "SELECT c.relname::text, i.indexrelid::regclass::text, a.attname::text, i.indisprimary"
        "  FROM pg_index i"
        "  JOIN pg_class c ON c.oid = i.indrelid"
        "  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
        " WHERE i.indisunique AND c.relname = ANY(%s)",
        ([*TABLES, *PARTITION_TABLES],),
    ).fetchall()

    assert [index for _, index, first, _ in rows if first != "tenant_id"] == []
    assert sorted(table for table, _, _, primary in rows if primary) == sorted([*TABLES, *PARTITION_TABLES])


def test_every_table_and_partition_forces_row_level_security(owner: psycopg.Connection) -> None:
    found = names(
        owner, "SELECT relname::text FROM pg_class WHERE relrowsecurity AND relforcerowsecurity ORDER BY relname"
    )

    assert sorted(found) == sorted([*TABLES, *PARTITION_TABLES])


def test_every_table_has_one_policy_for_all_commands_that_checks_reads_and_writes(owner: psycopg.Connection) -> None:
    rows = owner.execute(
        "SELECT tablename::text, permissive, roles::text[], cmd, qual, with_check FROM pg_policies"
        " WHERE policyname = 'one_tenant' ORDER BY tablename"
    ).fetchall()

    assert [row[0] for row in rows] == TABLES
    assert {row[1:4] for row in map(_hashable, rows)} == {("PERMISSIVE", ("public",), "ALL")}
    assert all(row[4] == row[5] and "app.tenant_id" in row[4] for row in rows)


def test_the_only_other_policies_open_the_queue_and_the_upkeep_to_the_workers_role(owner: psycopg.Connection) -> None:
    rows = owner.execute(
        "SELECT tablename::text, roles::text[] FROM pg_policies WHERE policyname <> 'one_tenant' ORDER BY tablename"
    ).fetchall()

    assert rows == [("job_queue", ["rag_worker"]), ("upkeep", ["rag_worker"])]


def test_nothing_is_granted_on_a_partition(owner: psycopg.Connection) -> None:
    granted = [
        table
        for table in PARTITION_TABLES
        for role in ("rag_app", "rag_worker")
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
        if owner.execute("SELECT has_table_privilege(%s, %s, %s)", (role, table, right)).fetchone() == (True,)
    ]

    assert granted == []


def test_the_services_roles_own_nothing_and_bypass_nothing(owner: psycopg.Connection) -> None:
    roles = owner.execute(
        "SELECT rolname::text, rolsuper OR rolbypassrls OR rolcreatedb OR rolcreaterole OR rolcanlogin FROM pg_roles"
        " WHERE rolname IN ('rag_app', 'rag_worker') ORDER BY rolname"
    ).fetchall()
    owned = names(owner, "SELECT tablename::text FROM pg_tables WHERE tableowner IN ('rag_app', 'rag_worker')")

    assert roles == [("rag_app", False), ("rag_worker", False)]
    assert owned == []


def test_every_migration_gives_up_soon_when_it_cannot_have_its_lock() -> None:
    sources = [file.read_text() for file in Path(REPOSITORY, "migrations", "versions").glob("[0-9]*.py")]

    assert sources
    assert all("SET LOCAL lock_timeout" in source for source in sources)


def _hashable(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(tuple(item) if isinstance(item, list) else item for item in row)
