"""Conversations over `/v1/chat/completions`: what a second question is answered from."""

from __future__ import annotations

from typing import Any

import pytest

from rag.errors import UpstreamTimeout
from rag.values import tenant_id
from tests.e2e.conftest import Caller, OpenFake
from tests.integration.caching import TARGETS
from tests.integration.corpus import prepared, store
from tests.integration.test_rewritten_questions import CASH, OTHERS, TaskChat

NONE = "The documents do not answer this question."
REFUND = "How long does a refund take?"
BOTH: dict[str, Any] = {"chat_targets": TARGETS, "chat_chains": {"answer": ("one",), "rewrite": ("two",)}}


def conversation(*turns: str, **more: Any) -> dict[str, Any]:
    """The user and the assistant in turn."""
    messages = [{"role": "assistant" if n % 2 else "user", "content": turn} for n, turn in enumerate(turns)]
    return {"model": "rag", "messages": messages, **more}


async def said(caller: Caller, *turns: str) -> dict[str, Any]:
    """The message that ends a conversation."""
    response = await caller.send("POST", "/v1/chat/completions", json=conversation(*turns))
    assert response.status_code == 200, response.text
    return dict(response.json()["choices"][0]["message"])


async def test_a_follow_up_that_says_nothing_alone_is_answered_after_what_it_leans_on(acme: Caller) -> None:
    alone = await said(acme, "And from when on?")
    after = await said(acme, REFUND, "It takes a while. [1]", "And from when on?")

    assert (alone["content"], alone["status"]) == (NONE, "no_evidence")
    assert after["status"] == "answered"
    assert "after it is approved" in after["content"]
    assert after["citations"][0]["external_id"] == "guides/refunds.md"


async def test_a_new_question_is_answered_as_if_nothing_had_been_said_before(acme: Caller) -> None:
    asked = "What is the hotel allowance a night on a business trip?"

    alone = await said(acme, asked)
    after = await said(acme, REFUND, "Five business days. [1]", asked)

    assert (after["content"], after["citations"]) == (alone["content"], alone["citations"])
    assert "155 EUR" in after["content"]


async def test_a_follow_up_leads_to_no_document_of_another_tenant(rival: Caller, acme: Caller) -> None:
    turns = ("What does code RVL-77 open?", "The vault. [1]", "And how is it opened?")

    theirs, ours = await said(rival, *turns), await said(acme, *turns)

    assert {source["external_id"] for source in theirs["sources"]} == {"secret/plans.md"}
    assert ours["status"] == "no_evidence"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_follow_up_is_searched_as_the_model_writes_it(fake_service: OpenFake, stream: bool) -> None:
    chat = TaskChat()
    async with fake_service(chat, **BOTH) as fake:
        caller = await fake.caller()
        await store(fake.database, tenant_id("fake"), [CASH, OTHERS])

        body = conversation("How many days does a card refund take?", "Five. [1]", "And for cash?", stream=stream)
        response = await caller.send("POST", "/v1/chat/completions", json=body)

    assert response.status_code == 200
    assert "Nine days" in response.text
    assert '"status":"answered"' in response.text.replace(" ", "")
    assert "Question: And for cash?" in chat.requests[0].messages[-1].text
    assert chat.requests[0].passages[0].chunk.external_id == "cash.md"


async def test_a_model_that_cannot_rewrite_keeps_nobody_from_an_answer(fake_service: OpenFake) -> None:
    async with fake_service(TaskChat(error=UpstreamTimeout("late")), **BOTH) as fake:
        caller = await fake.caller()
        documents = [prepared("cash.md", "How many days does cash take then: nine days.")]
        await store(fake.database, tenant_id("fake"), documents)

        message = await said(caller, "Hello?", "Hello.", "How many days does cash take then?")

    assert (message["status"], message["content"]) == ("answered", "Nine days. [1]")
