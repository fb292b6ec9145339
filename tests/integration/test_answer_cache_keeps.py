from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rag.calls import Degraded
from rag.errors import UpstreamIncomplete
from rag.store.answers import AnswerToKeep, keep_answer
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.folders import delete_from_folder
from rag.store.writing import PreparedDocument
from rag.values import Deadline, Facets, Principal, TenantId
from tests.conftest import MakeTenant
from tests.integration.caching import ASKED, FEES, REFUNDS, ScriptedChat, answerer, ask, kept, settings, stream
from tests.integration.corpus import prepared, question, scope, store
from tests.integration.reading import delete


@pytest.mark.parametrize("pieces", range(5))
async def test_bug_25_an_answer_that_breaks_off_is_not_kept(
    database: Database, filled: TenantId, owner: psycopg.Connection, pieces: int
) -> None:
    whole = ScriptedChat()
    cut = ScriptedChat(*whole.pieces[:pieces] or [""], error=UpstreamIncomplete())

    with pytest.raises(UpstreamIncomplete):
        await ask(answerer(database, cut), filled, ASKED)
    with pytest.raises(UpstreamIncomplete):
        await stream(answerer(database, cut), filled, ASKED)

    assert kept(owner, filled) == 0
    assert (await ask(answerer(database, whole), filled, ASKED)).cache == "miss"


@pytest.mark.parametrize("events", range(1, 6))
async def test_bug_25_an_answer_whose_reader_leaves_is_not_kept(
    database: Database, filled: TenantId, owner: psycopg.Connection, events: int
) -> None:
    who = Principal(filled, frozenset({"query"}))

    reading = answerer(database, ScriptedChat()).stream(
        who, question(ASKED), max_tokens=100, deadline=Deadline.after(5)
    )
    async with aclosing(reading):
        for _ in range(events):
            await anext(reading)

    assert kept(owner, filled) == 0


@pytest.mark.parametrize("reply", [{"finish": "length"}, {"degraded": Degraded("overloaded", "")}], ids=str)
async def test_bug_25_an_answer_cut_short_or_of_a_lesser_model_is_not_kept(
    database: Database, filled: TenantId, owner: psycopg.Connection, reply: dict[str, Any]
) -> None:
    answer = await ask(answerer(database, ScriptedChat(**reply)), filled, ASKED)

    assert (answer.cache, kept(owner, filled)) == ("miss", 0)


async def test_bug_25_no_answer_is_not_kept(database: Database, filled: TenantId, owner: psycopg.Connection) -> None:
    answer = await ask(answerer(database, ScriptedChat("")), filled, ASKED)

    assert (answer.status, kept(owner, filled)) == ("no_evidence", 0)


async def test_bug_25_two_tenants_with_the_same_documents_have_answers_of_their_own(
    database: Database, filled: TenantId, make_tenant: MakeTenant
) -> None:
    other = await make_tenant()
    await store(database, other, [REFUNDS, FEES])
    answering = answerer(database, ScriptedChat())

    answers = [await ask(answering, tenant, ASKED) for tenant in (filled, other, filled, other)]

    assert [answer.cache for answer in answers] == ["miss", "miss", "hit", "hit"]


async def test_what_is_deleted_is_gone_from_the_cache_when_that_commits(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat())
    await ask(answering, filled, ASKED)

    async with database.tenant(filled) as tx:
        await delete_document(tx, "fees.md")
        before = kept(owner, filled)

    assert (before, kept(owner, filled)) == (1, 0)
    assert (await ask(answering, filled, ASKED)).cache == "miss"


async def test_what_is_replaced_or_leaves_its_folder_is_gone_from_the_cache(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await store(database, tenant, [replace(REFUNDS, folder="docs"), replace(FEES, folder="docs")])
    answering = answerer(database, ScriptedChat())

    await ask(answering, tenant, ASKED)
    await store(database, tenant, [replace(FEES, folder="docs")])
    after_upload = kept(owner, tenant)
    await ask(answering, tenant, ASKED)
    async with database.tenant(tenant) as tx:
        await delete_from_folder(tx, ["fees.md"], folder="docs")

    assert (after_upload, kept(owner, tenant)) == (0, 0)
    assert (await ask(answering, tenant, ASKED)).cache == "miss"


async def test_a_document_that_groups_were_closed_to_is_not_in_an_answer_to_others(
    database: Database, filled: TenantId
) -> None:
    answering = answerer(database, ScriptedChat())
    await ask(answering, filled, ASKED)

    await store(database, filled, [replace(REFUNDS, facets=Facets(acl=("hr",)))])
    after = await ask(answering, filled, ASKED)

    assert after.cache != "hit"
    assert {citation.external_id for citation in after.citations} <= {"fees.md"}


async def test_an_upload_of_another_document_leaves_an_answer_that_it_is_no_source_of(
    database: Database, filled: TenantId
) -> None:
    answering = answerer(database, ScriptedChat())
    narrow = question(ASKED, top_k=1)
    await ask(answering, filled, narrow)

    await store(database, filled, [prepared("pumps.md", "Prime the pump.")])

    assert (await ask(answering, filled, narrow)).cache == "hit"


SOON = datetime.now(UTC) + timedelta(minutes=20)


@pytest.mark.parametrize(
    ("valid_to", "dated", "ends"), [(SOON, False, True), (SOON, True, False), (None, False, False)]
)
async def test_an_answer_as_of_now_ends_with_the_validity_of_what_was_read_also_if_it_is_not_cited(
    database: Database, filled: TenantId, owner: psycopg.Connection, valid_to: datetime | None, dated: bool, ends: bool
) -> None:
    await store(database, filled, [prepared("fees.md", FEES.text, facets=Facets(valid_to=valid_to))])
    asked = question(ASKED, replace(scope(), dated=dated))

    answer = await ask(answerer(database, ScriptedChat()), filled, asked)

    assert {citation.external_id for citation in answer.citations} == {"refunds.md"}
    assert {source.chunk.external_id for source in answer.sources} == {"refunds.md", "fees.md"}
    rows = owner.execute("SELECT expires_at FROM answer_cache WHERE tenant_id = %s", (filled,)).fetchall()
    assert [expires_at == SOON for (expires_at,) in rows] == [ends]


CHANGED = {
    "deleted": None,
    "text": prepared("refunds.md", "A refund takes nine days."),
    "title": replace(REFUNDS, facets=Facets(title="Refunds until 2025")),
    "headings": replace(REFUNDS, drafts=[replace(REFUNDS.drafts[0], breadcrumb=("Until 2025",))]),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
async def test_an_answer_whose_source_changes_while_it_is_made_is_not_kept(
    database: Database, filled: TenantId, owner: psycopg.Connection, changed: PreparedDocument | None
) -> None:
    async def meanwhile() -> None:
        if changed is None:
            await delete(database, filled, "refunds.md")
        else:
            await store(database, filled, [changed])

    answer = await ask(answerer(database, ScriptedChat(meanwhile=meanwhile)), filled, ASKED)

    assert (answer.cache, kept(owner, filled)) == ("miss", 0)


async def test_an_answer_whose_source_is_just_being_deleted_is_not_kept_and_waits_for_nobody(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    async with database.tenant(filled) as tx:
        await delete_document(tx, "refunds.md")  # not yet seen by others
        async with asyncio.timeout(5):
            answer = await ask(answerer(database, ScriptedChat()), filled, ASKED)

    assert (answer.cache, kept(owner, filled)) == ("miss", 0)


async def test_a_deletion_waits_for_an_answer_that_is_just_being_kept_and_takes_it_along(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    chat = ScriptedChat()
    await ask(answerer(database, chat, settings(answer_cache="off")), filled, ASKED)
    answer = AnswerToKeep(b"key", b"kin", "{}", chat.requests[0].passages)

    async with database.tenant(filled) as tx:
        is_kept = await keep_answer(tx, answer, ttl_s=60, most_bytes=10**6)
        deleting = asyncio.create_task(delete(database, filled, "refunds.md"))
        waits = not (await asyncio.wait([deleting], timeout=0.2))[0]
    await deleting

    assert (is_kept, waits, kept(owner, filled)) == (True, True, 0)
