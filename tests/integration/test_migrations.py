from __future__ import annotations

from collections.abc import Callable
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import TupleRow

from rag.analysis import term_id
from rag.errors import IndexMismatch
from rag.retrieval.lexical import LexicalLeg
from rag.store.indexes import index_state
from rag.store.migration import downgrade, upgrade
from rag.store.search import posting_blocks
from rag.store.tenancy import create_tenant
from rag.values import Recipe
from tests.conftest import open_service_database
from tests.integration.corpus import prepared, question, store
from tests.integration.uploads import upload

DEFAULTS = Recipe("unknown", "identifiers+snowball-1", "structure-2")
ROWS: tuple[LiteralString, ...] = (
    "SELECT chunk_id, document_id, ord, content, generation, indexed FROM chunks ORDER BY ord",
    "SELECT ord, embedding::text FROM embeddings ORDER BY ord",
    "SELECT * FROM postings ORDER BY term",
    "SELECT external_id, version, superseded, generations, chunk_count FROM documents ORDER BY 1",
    "SELECT external_id, state, payload, keep_history FROM jobs ORDER BY 1",
    "SELECT name, next_ord, index_version, generation FROM tenants ORDER BY 1",
    "SELECT tenant_id, generation, posted, dead, appended, writes, langs FROM indexes ORDER BY 1",
)


@pytest.mark.parametrize("owner", ["postgres", "keeper"], ids=["a superuser", "an owner under row-level security"])
async def test_what_was_stored_before_there_were_indexes_is_the_first_of_them(
    clone: Callable[[], str], owner: str
) -> None:
    url = clone()
    async with open_service_database(url) as database:
        one, two = [await create_tenant(database, name) for name in ("one", "two")]
        for tenant in (one, two):
            await store(database, tenant, [prepared("a.md", "parcels go by train", "fees"), prepared("b.md", "boats")])
            await store(database, tenant, [prepared("b.md", "boats sail")])
        await create_tenant(database, "empty")
        await upload(database, one)
    before = rows(url)
    own(url, owner)

    downgrade(url.replace("://postgres", f"://{owner}"), "0001")
    upgrade(url.replace("://postgres", f"://{owner}"), "head")

    assert rows(url) == before
    async with open_service_database(url) as database:
        async with database.tenant(one) as tx:
            assert (await index_state(tx)).recipe == DEFAULTS
            assert [b.ords.tolist() for b in await posting_blocks(tx, [term_id("parcel")], generation=1)] == [[0]]
        with pytest.raises(IndexMismatch, match="run `rag reindex`"):  # its terms are those of an earlier analyser
            await LexicalLeg(database)(one, question("parcels"), 50)


@pytest.mark.parametrize("owner", ["postgres", "keeper"], ids=["a superuser", "an owner under row-level security"])
async def test_tenants_of_many_ordinals_wait_for_a_workers_look_after_the_upgrade(
    clone: Callable[[], str], owner: str
) -> None:
    url = clone()
    async with open_service_database(url) as database:
        worn, _ = [await create_tenant(database, name) for name in ("worn", "fresh")]
        async with database.tenant(worn) as tx:
            await tx.run("give_ordinals", added=2_000_000)
    own(url, owner)

    downgrade(url.replace("://postgres", f"://{owner}"), "0006")
    upgrade(url.replace("://postgres", f"://{owner}"), "head")

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT tenant_id FROM upkeep").fetchall() == [(worn,)]


def rows(url: str) -> list[list[TupleRow]]:
    with psycopg.connect(url) as connection:
        return [connection.execute(query).fetchall() for query in ROWS]


def own(url: str, role: str) -> None:
    """Let *role*, made when it is not there, own every table, as on servers that give nobody a superuser."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(role)
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER").format(name))
        connection.execute(sql.SQL("GRANT rag_app, rag_worker TO {} WITH SET TRUE").format(name))
        database = sql.Identifier(str(connection.info.dbname))
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, name))
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(sql.Identifier(table), name))
