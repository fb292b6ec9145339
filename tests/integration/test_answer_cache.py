from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from rag.calls import Answer
from rag.store.engine import Database, open_database
from rag.values import Passage, TenantId
from tests.conftest import REPOSITORY
from tests.integration.caching import ASKED, ScriptedChat, answerer, ask, kept, settings, stream


async def test_the_same_question_is_answered_once_and_then_again_for_nothing(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    chat = ScriptedChat()
    answering = answerer(database, chat)

    first, second = await ask(answering, filled, ASKED), await ask(answering, filled, f"  {ASKED}\n")

    assert (first.cache, second.cache, len(chat.requests)) == ("miss", "hit", 1)
    assert (second.text, second.citations) == (first.text, first.citations) != ("", ())
    assert (second.target, second.model, second.status) == ("fake", "one-large", "answered")
    assert (first.usage.input, second.usage.input, second.usage.output) == (7, 0, 0)
    assert kept(owner, filled) == 1


async def test_a_hit_is_streamed_as_a_live_answer_is(database: Database, filled: TenantId) -> None:
    words = [f"word{n} " for n in range(60)]
    answering = answerer(database, ScriptedChat(*words, "[1]"))

    live, replayed = [await stream(answering, filled, ASKED) for _ in range(2)]

    for events in (live, replayed):
        sources, *pieces, whole = events
        assert isinstance(sources[0], Passage)
        assert isinstance(whole, Answer)
        assert "".join(pieces) == whole.text
    assert (live[-1].cache, replayed[-1].cache) == ("miss", "hit")
    assert len(replayed) > 4
    assert replayed[0] == live[0]


async def test_a_failing_cache_costs_the_hit_and_not_the_answer(
    database: Database, database_url: str, filled: TenantId
) -> None:
    chat = ScriptedChat()
    async with open_database(database_url, size=1, timeout_s=1.0) as closed:
        pass
    answering = answerer(database, chat, cache_in=closed)

    answers = [await ask(answering, filled, ASKED) for _ in range(2)]

    assert [answer.cache for answer in answers] == ["miss", "miss"]
    assert len(chat.requests) == 2


@pytest.mark.parametrize("given", [settings("extractive", "one"), settings(answer_cache="off")], ids=["quoted", "off"])
async def test_nothing_is_kept_when_the_cache_is_off_or_sentences_are_only_quoted(
    database: Database, filled: TenantId, owner: psycopg.Connection, given: Any
) -> None:
    chat = ScriptedChat()

    answers = [await ask(answerer(database, chat, given), filled, ASKED) for _ in range(2)]

    assert [answer.cache for answer in answers] == ["off", "off"]
    assert (len(chat.requests), kept(owner, filled)) == (2, 0)


async def test_a_stale_answer_is_made_again(database: Database, filled: TenantId, owner: psycopg.Connection) -> None:
    answering = answerer(database, ScriptedChat())
    await ask(answering, filled, ASKED)

    owner.execute("UPDATE answer_cache SET expires_at = now() - interval '1 s' WHERE tenant_id = %s", (filled,))
    answers = [await ask(answering, filled, ASKED) for _ in range(2)]

    assert [answer.cache for answer in answers] == ["miss", "hit"]
    assert kept(owner, filled) == 1


async def test_a_tenant_never_keeps_more_than_its_bytes_and_the_oldest_go_first(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat(), settings(answer_cache_bytes=5000))

    for tokens in range(100, 120):
        await ask(answering, filled, ASKED, max_tokens=tokens)
    [(used,)] = owner.execute("SELECT sum(size_bytes) FROM answer_cache WHERE tenant_id = %s", (filled,)).fetchall()
    newest, oldest = [await ask(answering, filled, ASKED, max_tokens=tokens) for tokens in (119, 100)]

    assert 3000 < used <= 5000
    assert (newest.cache, oldest.cache) == ("hit", "miss")


async def test_answers_kept_at_the_same_time_stay_within_the_bytes_together(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat(), settings(answer_cache_bytes=3000))

    await asyncio.gather(*(ask(answering, filled, ASKED, max_tokens=tokens) for tokens in range(100, 116)))

    [(used,)] = owner.execute("SELECT sum(size_bytes) FROM answer_cache WHERE tenant_id = %s", (filled,)).fetchall()
    assert 0 < used <= 3000


async def test_an_answer_larger_than_the_cache_is_not_kept(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat(), settings(answer_cache_bytes=500))

    await ask(answering, filled, ASKED)

    assert kept(owner, filled) == 0


async def test_the_same_question_from_many_at_once_is_answered_to_each(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat())

    answers = await asyncio.gather(*(ask(answering, filled, ASKED) for _ in range(8)))

    assert {answer.text for answer in answers} == {"It takes five days. [1]"}
    assert kept(owner, filled) == 1


async def test_what_one_process_has_answered_another_gives_again(
    database: Database, database_url: str, filled: TenantId, process_environment: dict[str, str]
) -> None:
    program = [sys.executable, "-m", "tests.integration.cache_asker", database_url, str(filled), ASKED]

    first, second = [
        subprocess.run(program, cwd=REPOSITORY, env=process_environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    here = await ask(answerer(database, ScriptedChat()), filled, ASKED)

    assert (first.stdout.split(), second.stdout.split()) == (["miss", "1"], ["hit", "0"])
    assert here.cache == "hit"
