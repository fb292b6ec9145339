"""A `rag serve` that is asked to stop while answers are streamed: they end whole, or say that they are not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rag.api.feed import SAYING_S, STOPPING_S
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import open_database
from rag.store.tenancy import create_key, create_tenant
from tests.e2e.conftest import CORPUS, Caller, Service, serving_process
from tests.integration.llm.fake_server import open_fake
from tests.integration.llm.fake_steps import Script, done, fin, role, say, stall

QUESTION = "How long does a refund take?"
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/query": {"query": QUESTION},
    "/v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": QUESTION}]},
}
POLL_S = 1.0  # until the process sees the signal


@pytest.fixture
def environment(clone: Callable[[], str], process_environment: dict[str, str]) -> dict[str, str]:
    return {**process_environment, "DATABASE_URL": clone(), "RAG_POOL_SIZE": "4"}


@asynccontextmanager
async def asked_of(script: Script, environment: dict[str, str], folder: Path) -> AsyncIterator[tuple[Service, Caller]]:
    """A service that answers by a model which plays *script*, and somebody of a tenant with documents."""
    async with open_fake() as fake:
        fake.play("p1", script)
        target = {
            "name": "p1",
            "dialect": "openai",
            "url": fake.url("p1", "openai"),
            "model": "m",
            "idle_timeout_s": 60,
        }
        chat = {"RAG_CHAT_TARGETS": json.dumps([target]), "RAG_CHAT_CHAINS": '{"answer": ["p1"]}'}
        with serving_process({**environment, **chat}, folder) as service:
            async with (
                open_database(environment["DATABASE_URL"], size=1, timeout_s=10.0) as database,
                httpx2.AsyncClient(base_url=service.url, timeout=30) as http,
            ):
                scopes = frozenset({"query", "ingest"})
                key = await create_key(
                    database, await create_tenant(database, "acme"), scopes=scopes, groups=frozenset()
                )
                caller = Caller(http, key)
                await caller.put("refunds.md", json=CORPUS["guides/refunds.md"])
                yield service, caller


async def streamed(caller: Caller, route: str, begun: asyncio.Event) -> list[str]:
    """The data of each event; *begun* once the model's first words are there."""
    found = []
    headers = {"Authorization": f"Bearer {caller.key}"}
    async with caller.http.stream("POST", route, json={**ROUTES[route], "stream": True}, headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                found.append(line.removeprefix("data: "))
            if "A refund" in line and "sources" not in line:
                begun.set()
    return found


async def until_stopped(service: Service, caller: Caller, by: signal.Signals) -> tuple[list[list[str]], float]:
    """The events of every route's stream, whose process gets a signal after its first words, and how long they took."""
    begun = [asyncio.Event() for _ in ROUTES]
    tasks = [asyncio.create_task(streamed(caller, route, event)) for route, event in zip(ROUTES, begun, strict=True)]
    async with asyncio.timeout(20):
        for event in begun:
            await event.wait()
    started = time.monotonic()
    os.kill(service.pid, by)
    return await asyncio.gather(*tasks), time.monotonic() - started


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
async def test_an_answer_under_way_is_finished_before_the_service_stops(
    environment: dict[str, str], tmp_path: Path, by: signal.Signals
) -> None:
    slow = [role(), say("A refund "), stall(2), say("takes five business days. [1]"), fin(), done]
    async with asked_of(slow, environment, tmp_path) as (service, caller):
        (query, completion), _ = await until_stopped(service, caller, by)

    assert json.loads(query[-1])["answer"] == "A refund takes five business days. [1]"
    assert completion[-1] == "[DONE]"


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_stopped_takes_its_embedded_database_along(
    process_environment: dict[str, str], tmp_path: Path, by: signal.Signals
) -> None:
    with serving_process(process_environment, tmp_path) as service:
        os.kill(service.pid, by)
        os.waitpid(service.pid, 0)

    assert not EmbeddedPostgres(tmp_path).accepts()


@pytest.mark.quiet
async def test_an_answer_that_is_not_finished_in_time_ends_with_an_error(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with asked_of([role(), say("A refund "), stall()], environment, tmp_path) as (service, caller):
        (query, completion), took_s = await until_stopped(service, caller, signal.SIGTERM)
        logged = service.log.read_text()

    problem, error = json.loads(query[-1]), json.loads(completion[-1])["error"]
    assert (problem["status"], problem["code"], error["code"]) == (502, "upstream_incomplete", "upstream_incomplete")
    assert problem["detail"] == error["message"] == "the service was stopped before the answer was whole; ask again"
    assert "ASGI callable returned" not in logged
    assert STOPPING_S <= took_s < STOPPING_S + SAYING_S + POLL_S
