from __future__ import annotations

import pytest

from rag.retrieval.expand import expand
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.search import load_chunks
from rag.values import Facets, Hit, TenantId, content_id
from tests.integration.corpus import prepared, scope, store

OLD = prepared("fees.md", "The fee is 3 EUR.", "It is due in May.")
SIZE = 400


async def hits_of(database: Database, tenant: TenantId) -> list[Hit]:
    ids = [content_id(draft.indexed) for draft in OLD.drafts]
    async with database.tenant(tenant) as tx:
        found = await load_chunks(tx, scope(), ids, generation=1)
    return [Hit(found[id_], 1.0, rank, 1.0) for rank, id_ in enumerate(ids, 1)]


async def test_hits_of_one_section_make_one_passage_of_its_text(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [OLD])

    [passage] = await expand(database, tenant, await hits_of(database, tenant), scope=scope(), section_chars=SIZE)

    assert (passage.n, passage.start, passage.text) == (1, 0, "The fee is 3 EUR.\nIt is due in May.")
    assert [chunk.text for chunk in passage.chunks] == ["The fee is 3 EUR.", "It is due in May."]


@pytest.mark.parametrize("after", ["deleted", "replaced", "closed"])
async def test_what_is_gone_or_closed_since_the_search_makes_no_passage(
    database: Database, tenant: TenantId, after: str
) -> None:
    await store(database, tenant, [OLD])
    hits = await hits_of(database, tenant)
    if after == "deleted":
        async with database.tenant(tenant) as tx:
            await delete_document(tx, "fees.md")
    elif after == "replaced":
        await store(database, tenant, [prepared("fees.md", "The fee is 4 EUR.", "It is due in June.")])
    else:
        await store(database, tenant, [prepared("fees.md", "The fee is 3 EUR.", facets=Facets(acl=("board",)))])

    assert await expand(database, tenant, hits, scope=scope(), section_chars=SIZE) == ()
