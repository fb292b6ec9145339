from __future__ import annotations

import psycopg
import pytest

from rag.errors import NotFound, StoreError
from rag.store.compaction import compact
from rag.store.documents import (
    delete_document,
    get_document,
    list_documents,
)
from rag.store.engine import Database, TenantTx
from rag.store.indexes import index_state
from rag.store.search import live_in_scope
from rag.values import Facets, TenantId, tenant_id
from tests.conftest import MakeTenant
from tests.integration.corpus import prepared, scope, store
from tests.integration.reading import NOBODY, Legs, counts, delete, document


async def test_a_shorter_version_leaves_no_tail_in_any_table(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", *(f"zebra {n}" for n in range(30))), prepared("two", "other")])

    await store(database, tenant, [prepared("one", "walrus")])
    async with database.tenant(tenant) as tx:
        await compact(tx)

    assert counts(owner, tenant) == (2, 2, 2, 2)
    [posted] = owner.execute("SELECT sum(n)::int FROM postings WHERE tenant_id = %s", (tenant,)).fetchall()
    assert posted == (2,)  # walrus and other


async def test_a_write_that_fails_at_its_last_row_leaves_the_old_version_whole(
    database: Database, legs: Legs, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", "zebra", "zebra again")])
    before, state = await document(database, tenant, "one"), counts(owner, tenant)
    broken = prepared("two", "walrus", "NUL \0 in a text")

    with pytest.raises((StoreError, ValueError)):
        await store(database, tenant, [prepared("one", "walrus"), broken])

    assert await document(database, tenant, "one") == before
    assert counts(owner, tenant) == state == (1, 2, 2, 2)
    assert [len(found) for found in await legs.find(tenant, "zebra")] == [2, 2]


async def test_deleting_removes_a_document_from_both_legs_when_it_commits(
    database: Database, legs: Legs, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [prepared("one", "zebra"), prepared("two", "zebra too")])
    both = await legs.find(tenant, "zebra")

    async with database.tenant(tenant) as tx:
        await delete_document(tx, "one")
        assert await legs.find(tenant, "zebra") == both

    dense, lexical = await legs.find(tenant, "zebra")
    assert dense == lexical
    assert len(dense) == 1
    assert counts(owner, tenant) == (1, 1, 1, 1)
    with pytest.raises(NotFound, match="one"):
        await document(database, tenant, "one")


async def test_deleting_what_is_not_there_is_not_found_and_changes_nothing(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as tx:
        before = await index_state(tx)

    with pytest.raises(NotFound, match="absent"):
        await delete(database, tenant, "absent")

    async with database.tenant(tenant) as tx:
        assert await index_state(tx) == before


async def test_writing_for_an_unknown_tenant_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound, match="rag tenant create"):
        await store(database, tenant_id("nobody"), [prepared("one", "zebra")])


async def test_the_same_external_id_is_another_document_in_another_tenant(
    database: Database, make_tenant: MakeTenant
) -> None:
    one, other = await make_tenant(), await make_tenant()

    await store(database, one, [prepared("same", "zebra")])
    await store(database, other, [prepared("same", "walrus")])

    assert (await document(database, one, "same")).text == "zebra"
    assert (await document(database, other, "same")).text == "walrus"


async def test_documents_are_listed_in_pages_for_those_who_may_see_them(database: Database, tenant: TenantId) -> None:
    facets = {"c": Facets(acl=("hr",))}
    await store(database, tenant, [prepared(name, "zebra", facets=facets.get(name)) for name in "edcba"])

    async with database.tenant(tenant) as tx:
        pages = [await _names(tx, after=after, groups=NOBODY) for after in ("", "b", "e")]
        as_member = await _names(tx, after="b", groups=frozenset({"hr"}))

    assert pages == [["a", "b"], ["d", "e"], []]
    assert as_member == ["c", "d"]


async def _names(tx: TenantTx, *, after: str, groups: frozenset[str]) -> list[str]:
    listed = await list_documents(tx, groups, after=after, limit=2)
    assert all(one.text is None and one.chunks == 1 for one in listed)
    return [one.external_id for one in listed]


async def test_a_closed_document_is_not_found_by_others(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared("closed", "zebra", facets=Facets(acl=("hr", "law")))])

    async with database.tenant(tenant) as tx:
        with pytest.raises(NotFound):
            await get_document(tx, "closed", frozenset({"sales"}))
        assert (await get_document(tx, "closed", frozenset({"law"}))).text == "zebra"


async def test_ordinals_of_deleted_chunks_are_not_given_again(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [prepared("one", "zebra")])
    await delete(database, tenant, "one")
    await store(database, tenant, [prepared("one", "zebra")])

    async with database.tenant(tenant) as tx:
        assert list(await live_in_scope(tx, scope(), [0, 1, 2], generation=1)) == [1]
