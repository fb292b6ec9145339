from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from rag.app import Background
from rag.store.tenancy import create_tenant
from tests.e2e.conftest import Caller, FakeService, OpenFake, document
from tests.e2e.test_jobs_http import working
from tests.e2e.test_query_http import events
from tests.fakes import FakeChat, FakeEmbedder
from tests.integration.caching import TARGETS, ScriptedChat

ASKED = "What are the salary bands?"
BANDS = {"text": "# Salary bands\n\nThe salary bands are secret: B7 starts at 71,000.\n", "acl": ["hr"]}
RULES = {"text": "# Rules\n\nWhat the salary bands are is told by the people team.\n"}
CACHED: dict[str, Any] = {"chat_targets": TARGETS, "chat_chains": {"answer": ("one",)}}


async def staffed(service: FakeService, name: str, *groups: str) -> list[Caller]:
    """Members of a new tenant, each in the groups given; what some may not see is among its documents."""
    tenant = await create_tenant(service.database, name)
    members = [await service.colleague(tenant, of) for of in groups]
    for external_id, body in (("bands.md", BANDS), ("rules.md", RULES)):
        assert (await members[0].put(external_id, json=body))["state"] == "done"
    return members


@pytest.fixture
def worker() -> Background:
    return working(FakeEmbedder())


async def test_an_answer_is_given_again_only_to_those_who_may_see_and_ask_for_the_same(
    fake_service: OpenFake, worker: Background
) -> None:
    chat = ScriptedChat("B7 starts at 71,000. [1]")
    async with fake_service(chat, worker, **CACHED) as service:
        hr, hr_too, nobody = await staffed(service, "t1", "hr", "hr", "")
        [elsewhere] = await staffed(service, "t2", "hr")

        answers = [await caller.query(ASKED) for caller in (hr, nobody, elsewhere, hr, hr_too)]

    assert [answer["cache"] for answer in answers] == ["miss", "miss", "miss", "hit", "hit"]
    read = [" ".join(passage.text for passage in request.passages) for request in chat.requests]
    assert ["71,000" in texts for texts in read] == [True, False, True]


async def test_a_hit_is_streamed_as_sources_pieces_and_the_whole_and_costs_nothing(
    fake_service: OpenFake, worker: Background
) -> None:
    chat = ScriptedChat(*["The bands are long. "] * 10, "[1]")
    async with fake_service(chat, worker, **CACHED) as service:
        [asker] = await staffed(service, "t1", "hr")
        live, replayed = [await events(asker, ASKED) for _ in range(2)]
        plain = await asker.query(ASKED)

    for stream in (live, replayed):
        names = [name for name, _ in stream]
        assert names == ["sources", *["delta"] * (len(names) - 2), "done"]
        assert len(names) > 4
        assert "".join(data["text"] for name, data in stream if name == "delta") == stream[-1][1]["answer"]
    done = replayed[-1][1]
    assert (live[-1][1]["cache"], done["cache"], plain["cache"]) == ("miss", "hit", "hit")
    assert done["usage"] == plain["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert (done["answer"], done["citations"]) == (live[-1][1]["answer"], live[-1][1]["citations"])
    assert replayed[0][1]["sources"] == live[0][1]["sources"]
    assert len(chat.requests) == 1


async def test_a_deleted_document_is_in_no_answer_from_then_on(fake_service: OpenFake, worker: Background) -> None:
    chat = ScriptedChat("B7 starts at 71,000. [1]")
    async with fake_service(chat, worker, **CACHED) as service:
        [asker] = await staffed(service, "t1", "hr")
        before = [(await asker.query(ASKED))["cache"] for _ in range(2)]
        await asker.send("DELETE", document("bands.md"))
        with psycopg.connect(service.database_url) as owner:
            left = owner.execute("SELECT body FROM answer_cache").fetchall()
        after = await asker.query(ASKED)

    assert (before, left, after["cache"]) == (["miss", "hit"], [], "miss")
    assert {citation["external_id"] for citation in after["citations"]} == {"rules.md"}


async def test_beyond_the_slots_and_the_queue_the_answer_is_429_with_the_time_to_come_back(
    fake_service: OpenFake, worker: Background
) -> None:
    chat = FakeChat("The bands are secret. [1]", delay_s=0.5)
    async with fake_service(chat, worker, answer_concurrency=1, answer_queue=0) as service:
        [asker] = await staffed(service, "t1", "hr")
        first = asyncio.create_task(asker.query(ASKED))
        while not chat.requests:
            await asyncio.sleep(0.01)
        refused = [
            await asker.send("POST", "/v1/query", json={"query": ASKED, **how}) for how in ({}, {"stream": True})
        ]
        answered = await first
        streamed = await events(asker, ASKED)

    assert [(response.status_code, response.json()["code"]) for response in refused] == [(429, "busy")] * 2
    assert min(int(response.headers["Retry-After"]) for response in refused) >= 1
    assert answered["status"] == streamed[-1][1]["status"] == "answered"
    assert all(data["text"] for name, data in streamed if name == "delta")
