"""Who keeps an answer meets others who write: nobody waits for long, and nobody in a circle."""

from __future__ import annotations

import asyncio

import psycopg
from structlog.testing import capture_logs

from rag.store.answers import AnswerToKeep, forget_answers, keep_answer
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.values import TenantId, document_id
from tests.integration.caching import ASKED, FEES, REFUNDS, ScriptedChat, answerer, ask, kept, stream
from tests.integration.corpus import passage_of, prepared, question, store


async def test_an_answer_is_kept_at_once_though_the_stale_one_it_replaces_is_just_being_deleted(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat())
    await ask(answering, filled, question(ASKED, top_k=1))
    owner.execute("UPDATE answer_cache SET expires_at = now() WHERE tenant_id = %s", (filled,))

    async with database.tenant(filled) as tx:
        await delete_document(tx, "refunds.md")  # its answer is gone, but others do not know yet
        answer = await ask(answering, filled, question("A fee in euros?", top_k=1))

    assert [source.chunk.external_id for source in answer.sources] == ["fees.md"]
    assert (answer.status, answer.cache, kept(owner, filled)) == ("answered", "miss", 1)


async def test_an_answer_that_cannot_be_kept_soon_is_given_all_the_same(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat())

    async with database.tenant(filled) as tx, asyncio.timeout(10):
        await tx.run("lock_answers")  # as somebody who keeps an answer, and is stuck
        with capture_logs() as logs:
            *_, answer = await stream(answering, filled, ASKED)

    assert (answer.status, answer.text, kept(owner, filled)) == ("answered", "It takes five days. [1]", 0)
    assert [(entry["event"], entry["code"]) for entry in logs] == [("answer not kept", "timeout")]
    assert [(await ask(answering, filled, ASKED)).cache for _ in range(2)] == ["miss", "hit"]


async def test_who_makes_room_and_who_deletes_do_not_wait_for_each_other(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    pumps = prepared("pumps.md", "Prime the pump.")
    await store(database, filled, [pumps])
    refunds, fees, about_pumps = [passage_of(filled, made) for made in (REFUNDS, FEES, pumps)]
    for key, source in [(b"1", fees), (b"2", refunds), (b"3", fees)]:
        async with database.tenant(filled) as tx:
            assert await keep_answer(tx, AnswerToKeep(key, b"", "{}", (source,)), ttl_s=60, most_bytes=10**6)
    owner.execute("UPDATE answer_cache SET expires_at = now() WHERE tenant_id = %s", (filled,))

    async def make_room() -> None:
        async with database.tenant(filled) as tx:
            await keep_answer(tx, AnswerToKeep(b"4", b"", "{}", (about_pumps,)), ttl_s=60, most_bytes=10**6)

    async with database.tenant(filled) as tx:
        await forget_answers(tx, [document_id(filled, "refunds.md")])
        making_room = asyncio.create_task(make_room())
        await asyncio.wait([making_room], timeout=0.2)
        await forget_answers(tx, [document_id(filled, "fees.md")])
    await making_room

    keys = owner.execute("SELECT key FROM answer_cache WHERE tenant_id = %s", (filled,)).fetchall()
    assert keys == [(b"4",)]
