"""A chat model as requests reach it: what it is told, and by what measure that is packed and paid for."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from rag.answering.prompting import grounded
from rag.calls import Call, Usage, prompt_tokens
from rag.llm.events import End, Text
from rag.llm.failover import FailoverChat
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.settings import Settings
from rag.store.engine import Database
from rag.telemetry import Metrics
from rag.values import Deadline, TenantId
from rag.wiring import guarded
from tests.conftest import MakeTenant
from tests.fakes import FakeChat
from tests.integration.caching import answerer, ask
from tests.integration.corpus import prepared, store
from tests.integration.spending import budget, give, ledger, reserved_by
from tests.unit.llm.scripted import Scripted, Sentences

SHORT = " ".join(f"{letter}{n}@b.c" for letter in "pqrstuvw" for n in range(10))  # each shorter than <EMAIL_1>


def redacting(window: int = 8192) -> Settings:
    target = {"name": "p1", "dialect": "openai", "url": "http://p1", "model": "p1", "context_tokens": window}
    chains = {"answer": ("p1",)}
    return Settings(redact="email", chat_targets=[target], chat_chains=chains, answer_cache="off")  # type: ignore[arg-type]


def failover(*script: Any, window: int = 8192) -> FailoverChat:
    hop = Hop(Scripted("p1", script, context_tokens=window))  # type: ignore[arg-type]
    return FailoverChat(Lanes({"answer": Chain((hop,))}), Sentences(), Metrics())


async def test_a_model_is_not_told_what_is_to_be_redacted_and_the_answer_has_it(
    database: Database, make_tenant: MakeTenant
) -> None:
    chat = FakeChat("Write to [email-1].")
    call = Call(await make_tenant(), Deadline.after(60))
    request = grounded("Is jo@example.com right?", (), max_tokens=10)

    async with guarded(chat, Settings(redact=frozenset({"email"})), database, Metrics()) as model:
        await model.complete(request, call)

    assert "jo@example.com" in request.messages[-1].text
    assert "jo@example.com" not in "".join(message.text for message in chat.requests[0].messages)


async def test_sources_whose_placeholders_are_longer_than_what_they_hide_are_packed_so_that_they_fit(
    database: Database, tenant: TenantId
) -> None:
    await store(database, tenant, [prepared(f"{n}.md", f"Team {n} writes to {SHORT}") for n in range(6)])
    settings, chat = redacting(2048), failover(Text("To them. [1]"), End("stop", Usage(9, 0, 0, 9, 0)), window=2048)

    async with guarded(chat, settings, database, Metrics()) as model:
        answer = await ask(answerer(database, model, settings), tenant, "Who does the team write to?")

    assert (answer.status, answer.target) == ("answered", "p1")
    assert 1 <= len(answer.sources) < 6


async def test_a_call_is_reserved_as_it_is_told_so_that_an_estimate_stays_within(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    request = grounded(f"Who of {SHORT} is right?", (), max_tokens=10)
    await give(database, tenant, 5000)
    slow = failover(Text("All."), 0.2, End("stop", Usage()))  # the provider counts nothing

    async with guarded(slow, redacting(), database, Metrics()) as model:
        asking = asyncio.create_task(model.complete(request, Call(tenant, Deadline.after(60))))
        while not (reserved := (await budget(database, tenant)).reserved):
            await asyncio.sleep(0.01)
        await asking

    [(read, estimated)] = ledger(owner, tenant, "input_uncached, estimated")
    assert estimated
    assert prompt_tokens(request.messages) < read <= reserved
    assert reserved > reserved_by(request)
