from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg

from rag.store.engine import Database
from rag.store.indexes import index_state
from rag.store.search import scoped_ords
from rag.store.writing import PreparedDocument, replace_documents
from rag.values import TenantId, content_id
from tests.integration.corpus import RECIPE, prepared, scope, store
from tests.integration.reading import Legs, document

IN_ONE_STATEMENT = (
    "SELECT d.text, string_agg(c.text, E'\\n' ORDER BY c.position), d.chunk_count, count(e.ord)::int"
    "  FROM documents d"
    "  JOIN chunks c USING (tenant_id, document_id)"
    "  LEFT JOIN embeddings e USING (tenant_id, ord)"
    " GROUP BY d.text, d.chunk_count"
)


async def test_others_see_the_old_version_until_the_new_one_is_committed(
    database: Database, legs: Legs, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared("one", "zebra", "zebra again")])
    old = await legs.find(tenant, "zebra")

    async with database.tenant(tenant) as tx:
        await replace_documents(tx, [prepared("one", "walrus")], RECIPE)
        assert await legs.find(tenant, "zebra") == old
        assert (await legs.find(tenant, "walrus"))[1] == set()
        assert (await document(database, tenant, "one")).text == "zebra\nzebra again"

    assert (await legs.find(tenant, "zebra"))[1] == set()
    assert [len(found) for found in await legs.find(tenant, "walrus")] == [1, 1]


async def test_a_reader_sees_the_old_or_the_new_version_and_never_a_mix(database: Database, tenant: TenantId) -> None:
    versions = [prepared("one", *[f"version{n}"] * (1 + n % 3)) for n in range(40)]
    await store(database, tenant, versions[:1])
    writing = asyncio.create_task(_write_each(database, tenant, versions))
    seen: set[str] = set()

    while not writing.done():
        async with database.bare() as connection:
            await connection.execute("SELECT set_config('app.tenant_id', %s, true)", (str(tenant),))
            [(whole, parts, told, embedded)] = await (await connection.execute(IN_ONE_STATEMENT)).fetchall()
        assert whole == parts
        assert told == embedded == len(parts.split("\n"))
        seen.add(whole)
    await writing

    assert len(seen) > 5


async def test_searches_while_documents_come_and_go_find_the_ones_that_stay(
    database: Database, legs: Legs, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared("stays", "zebra stays"), prepared("one", "zebra")])
    writing = asyncio.create_task(
        _write_each(database, tenant, [prepared("one", *["zebra comes"] * (1 + n % 3)) for n in range(100)])
    )

    found = []
    while not writing.done():
        found.append(await legs.find(tenant, "zebra stays"))
    await writing

    expected = content_id("zebra stays")
    assert len(found) > 10
    assert all(expected in dense and expected in lexical for dense, lexical in found)


async def _write_each(database: Database, tenant: TenantId, versions: Sequence[PreparedDocument]) -> None:
    for version in versions:
        await store(database, tenant, [version])


async def test_writers_of_one_tenant_never_share_an_ordinal(
    database: Database, tenant: TenantId, owner: psycopg.Connection, legs: Legs
) -> None:
    documents = [prepared(f"doc-{n}", f"zebra {n}", f"zebra {n} again") for n in range(20)]

    async with asyncio.TaskGroup() as tasks:
        for one in documents:
            tasks.create_task(store(database, tenant, [one]))

    async with database.tenant(tenant) as tx:
        ords = (await scoped_ords(tx, scope(), generation=1)).tolist()
        state = await index_state(tx)
    assert sorted(ords) == list(range(40))
    assert (state.next_ord, state.posted, state.dead, state.index_version) == (40, 40, 0, 20)
    assert [len(found) for found in await legs.find(tenant, "zebra")] == [40, 40]
