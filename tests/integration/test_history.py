from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ingest.pipeline import Pipeline, Source
from rag.errors import NotFound
from rag.store.documents import StoredDocument, get_document, list_documents
from rag.store.engine import Database
from rag.values import TenantId, content_id
from tests.fakes import embedders, parse_directly
from tests.integration.corpus import question, scope
from tests.integration.reading import NOBODY, Legs, counts, delete

JANUARY, MARCH, JUNE = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 6))
FIVE, NINE, TWO = (f"A refund takes {days} days." for days in ("five", "nine", "two"))


async def put(
    database: Database, tenant: TenantId, text: str, *, begins: datetime | None = None, keep: bool = True
) -> str:
    facets = {"valid_from": begins} if begins else {}
    source = Source("policy.md", text.encode(), "text/markdown", facets, keep_history=keep)
    [result] = await Pipeline(database, embedders(), parse_directly).ingest(tenant, [source])
    assert result.state != "failed", result.reason
    return result.state


async def known(legs: Legs, tenant: TenantId, as_of: datetime) -> set[str]:
    """What both legs find as of a moment."""
    asked = question("refund", scope(as_of=as_of))
    found = [{one.content for one in (await leg(tenant, asked, 50)).ranked} for leg in (legs.dense, legs.lexical)]
    assert found[0] == found[1]
    return {text for text in (FIVE, NINE, TWO) if content_id(text) in found[0]}


async def version(database: Database, tenant: TenantId, number: int | None = None) -> StoredDocument:
    async with database.tenant(tenant) as tx:
        return await get_document(tx, "policy.md", NOBODY, number)


async def test_each_moment_knows_the_version_that_was_valid_then(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)
    await put(database, tenant, TWO, begins=JUNE)

    asked = (JANUARY - timedelta(1), JANUARY, MARCH - timedelta(1), MARCH, JUNE, datetime.now(UTC))

    assert [await known(legs, tenant, moment) for moment in asked] == [set(), {FIVE}, {FIVE}, {NINE}, {TWO}, {TWO}]


async def test_a_version_that_begins_in_the_future_leaves_todays_in_force(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    now = datetime.now(UTC)
    await put(database, tenant, FIVE, begins=JANUARY)

    await put(database, tenant, NINE, begins=now + timedelta(days=30))

    assert await known(legs, tenant, now) == {FIVE}
    assert await known(legs, tenant, now + timedelta(days=31)) == {NINE}


async def test_a_version_without_a_date_begins_when_it_is_stored(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    before = datetime.now(UTC)
    await put(database, tenant, NINE)

    assert await known(legs, tenant, before) == {FIVE}
    assert await known(legs, tenant, datetime.now(UTC)) == {NINE}


async def test_a_version_that_ended_already_ends_no_later(database: Database, tenant: TenantId, legs: Legs) -> None:
    source = Source("policy.md", FIVE.encode(), "text/markdown", {"valid_from": JANUARY, "valid_to": MARCH})
    await Pipeline(database, embedders(), parse_directly).ingest(tenant, [source])

    await put(database, tenant, NINE, begins=JUNE)

    assert await known(legs, tenant, MARCH + timedelta(1)) == set()
    assert (await version(database, tenant, 1)).valid_to == MARCH


async def test_every_version_can_be_read_with_the_text_its_spans_count_in(database: Database, tenant: TenantId) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)

    first, second, current = [await version(database, tenant, number) for number in (1, 2, None)]

    assert (first.text, first.superseded, first.valid_to) == (FIVE, True, MARCH)
    assert (second.text, second.superseded, second.valid_to) == (NINE, False, None)
    assert current == second
    assert first.document_id != second.document_id
    with pytest.raises(NotFound, match="version 3"):
        await version(database, tenant, 3)


async def test_the_list_has_the_current_version_only(database: Database, tenant: TenantId) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)

    async with database.tenant(tenant) as tx:
        listed = await list_documents(tx, NOBODY, after="", limit=10)

    assert [(one.external_id, one.version) for one in listed] == [("policy.md", 2)]


async def test_the_same_content_again_makes_no_version(database: Database, tenant: TenantId) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)

    again = await put(database, tenant, FIVE, begins=JANUARY)

    assert again == "unchanged"
    assert (await version(database, tenant)).version == 1


async def test_without_history_the_version_before_is_gone_and_older_ones_stay(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)

    await put(database, tenant, TWO, begins=MARCH, keep=False)

    assert (await version(database, tenant)).version == 2
    assert await known(legs, tenant, JANUARY) == {FIVE}
    assert await known(legs, tenant, JUNE) == {TWO}


async def test_a_newer_text_of_the_same_version_begins_where_that_version_began(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)

    await put(database, tenant, TWO, keep=False)

    assert [await known(legs, tenant, moment) for moment in (JANUARY, JUNE)] == [{FIVE}, {TWO}]


async def test_a_document_that_is_closed_to_others_is_closed_in_every_version(
    database: Database, tenant: TenantId, legs: Legs
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    closed = Source("policy.md", NINE.encode(), "text/markdown", {"acl": ("board",)}, keep_history=True)

    await Pipeline(database, embedders(), parse_directly).ingest(tenant, [closed])

    assert await known(legs, tenant, JANUARY) == set()
    with pytest.raises(NotFound):
        await version(database, tenant, 1)


async def test_deleting_a_document_deletes_every_version_of_it(
    database: Database, tenant: TenantId, legs: Legs, owner: psycopg.Connection
) -> None:
    await put(database, tenant, FIVE, begins=JANUARY)
    await put(database, tenant, NINE, begins=MARCH)

    await delete(database, tenant, "policy.md")

    assert counts(owner, tenant) == (0, 0, 0, 0)
    assert [await known(legs, tenant, moment) for moment in (JANUARY, JUNE)] == [set(), set()]


async def test_versions_that_share_a_chunk_keep_it_apart(database: Database, tenant: TenantId, legs: Legs) -> None:
    await put(database, tenant, f"{FIVE}\n\n# More\n\nSee the shop.", begins=JANUARY)
    await put(database, tenant, f"{NINE}\n\n# More\n\nSee the shop.", begins=MARCH)

    both = [
        {one.content for one in (await legs.lexical(tenant, question("shop", scope(as_of=moment)), 50)).ranked}
        for moment in (JANUARY, JUNE)
    ]

    assert len(both[0]) == 1
    assert both[0] == both[1]
