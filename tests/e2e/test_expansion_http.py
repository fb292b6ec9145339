"""Searches of high recall over HTTP: what is looked for beside the question, and when nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from rag.errors import UpstreamTimeout
from rag.ranking import DEFAULT
from rag.values import tenant_id
from tests.e2e.conftest import Caller, FakeService, OpenFake
from tests.integration.caching import TARGETS, ScriptedChat
from tests.integration.corpus import prepared, store
from tests.integration.spending import ledger

ASKED = "May I sleep at my cousin's?"
WRITTEN = "Private lodging with relatives is paid at a flat rate."
LODGING = prepared("lodging.md", "Private lodging with relatives: a flat rate of 30 EUR.")
OTHERS = [prepared(f"other-{n}.md", f"A cousin may sleep in room {n}.") for n in range(DEFAULT.depth + 10)]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/query": {"query": ASKED},
    "/v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": ASKED}]},
}
EXPANDING: dict[str, Any] = {"chat_targets": TARGETS, "chat_chains": {"answer": ("one",), "hyde": ("two",)}}


@asynccontextmanager
async def opened(
    fake_service: OpenFake, chat: ScriptedChat, **changed: Any
) -> AsyncIterator[tuple[FakeService, Caller]]:
    """A service that can expand questions, and somebody whose tenant has LODGING and OTHERS."""
    async with fake_service(chat, **(EXPANDING | changed)) as fake:
        caller = await fake.caller(scopes="query admin")
        await store(fake.database, tenant_id("fake"), [LODGING, *OTHERS])
        yield fake, caller


def names(found: dict[str, Any]) -> list[str]:
    return [hit["external_id"] for hit in found["hits"]]


async def test_high_recall_finds_what_the_imagined_passage_says_and_explains_it(fake_service: OpenFake) -> None:
    async with opened(fake_service, ScriptedChat(WRITTEN)) as (_, caller):
        plain = await caller.search(ASKED, top_k=100, explain=True)
        high = await caller.search(ASKED, top_k=100, explain=True, recall="high")
        unexplained = await caller.search(ASKED, recall="high")

    assert "lodging.md" not in names(plain)
    assert "lodging.md" in names(high)
    assert (plain["expansion"], high["expansion"], unexplained["expansion"]) == ("", WRITTEN, None)
    states = [found["expansion_state"] for found in (plain, high, unexplained)]
    assert states == ["not_asked", "written", None]
    assert "expansion" in high["timings_ms"]


async def test_the_setting_expands_every_question_but_those_that_name_an_identifier(fake_service: OpenFake) -> None:
    chat = ScriptedChat(WRITTEN)
    async with opened(fake_service, chat, expansion="always") as (_, caller):
        asked = [await caller.search(text, explain=True) for text in (ASKED, "What is HLY-4031?", 'the "flat rate"')]

    assert [reply["expansion"] for reply in asked] == [WRITTEN, "", ""]
    assert [reply["expansion_state"] for reply in asked] == ["written", "skipped", "skipped"]
    assert len(chat.requests) == 1


@pytest.mark.parametrize("route", BODIES)
async def test_a_question_to_be_answered_may_ask_for_it_too(fake_service: OpenFake, route: str) -> None:
    chat = ScriptedChat(WRITTEN)
    async with opened(fake_service, chat) as (_, caller):
        response = await caller.send("POST", route, json={**BODIES[route], "recall": "high"})

    assert response.status_code == 200, response.text
    assert chat.requests[0].task == "hyde"


async def test_a_model_that_fails_leaves_the_search_as_it_is(fake_service: OpenFake) -> None:
    async with opened(fake_service, ScriptedChat(error=UpstreamTimeout("late"))) as (_, caller):
        plain, high = await caller.search(ASKED), await caller.search(ASKED, recall="high", explain=True)

    assert names(high) == names(plain)
    assert (high["expansion"], high["expansion_state"]) == ("", "failed")


async def test_without_a_chain_for_it_high_recall_is_a_search_like_any_other(fake_service: OpenFake) -> None:
    chat = ScriptedChat(WRITTEN)
    async with opened(fake_service, chat, chat_chains={"answer": ("one",)}) as (_, caller):
        high = await caller.search(ASKED, recall="high", explain=True)

    assert (high["expansion"], high["expansion_state"], chat.requests) == ("", "no_chain", [])


async def test_an_expansion_is_a_call_of_its_own_in_the_ledger(fake_service: OpenFake) -> None:
    async with opened(fake_service, ScriptedChat(WRITTEN, target="two")) as (fake, caller):
        await caller.search(ASKED, recall="high")
        await caller.search(ASKED, recall="high")
        with psycopg.connect(fake.database_url, autocommit=True) as owner:
            entries = ledger(owner, tenant_id("fake"), "task, feature, outcome")

    assert entries == [("hyde", "expansion", "answered")]


async def test_a_recall_that_is_neither_is_refused(acme: Caller) -> None:
    response = await acme.send("POST", "/v1/search", json={"query": ASKED, "recall": "most"})

    assert response.status_code == 422
