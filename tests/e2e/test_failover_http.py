"""A service whose chat models fail: what callers see over HTTP, and what the providers see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio

from rag.api import feed
from tests.e2e.conftest import Caller, OpenFake
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.e2e.test_query_http import events
from tests.integration.llm.fake_server import FakeServer, open_fake
from tests.integration.llm.fake_steps import Script, blackhole, cut, done, err, fails, fin, good, role, stall, txt
from tests.integration.llm.theatre import SHORT, Theatre, open_theatre

TEXT = "A refund takes five days. [1]"


@dataclass
class Failing:
    """The service, its callers and its providers."""

    caller: Caller
    theatre: Theatre
    fake: FakeServer

    async def plain(self) -> tuple[int, str, str | None]:
        """Status, code and Retry-After of a whole answer."""
        response = await self.caller.send("POST", "/v1/query", json={"query": QUESTION})
        body = response.json()
        return response.status_code, body.get("code", body.get("status")), response.headers.get("retry-after")


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with open_fake() as server:
        yield server


@pytest.fixture
def failing(fake_service: OpenFake, fake: FakeServer):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def opened(*targets: dict[str, object], **changed: object) -> AsyncIterator[Failing]:
        async with open_theatre(fake, *targets) as theatre, fake_service(theatre.chat, **changed) as service:
            yield Failing(await with_a_document(service), theatre, fake)

    return opened


async def test_a_caller_never_sees_the_failure_before_the_first_words(failing) -> None:  # type: ignore[no-untyped-def]
    async with failing() as service:
        service.fake.play("p1", [role(), err("overloaded")])
        service.fake.play("p2", good(TEXT))

        streamed = await events(service.caller, QUESTION)
        answer = await service.caller.query(QUESTION)

    assert [name for name, _ in streamed][:2] == ["sources", "delta"]
    assert "".join(body["text"] for name, body in streamed if name == "delta") == TEXT
    assert streamed[-1][0] == "done"
    for body in (streamed[-1][1], answer):
        assert (body["status"], body["answer"], body["provider"]) == ("answered", TEXT, "p2")


async def test_bug_04_a_cut_stream_ends_with_a_typed_error_and_nothing_after_it(failing) -> None:  # type: ignore[no-untyped-def]
    async with failing() as service:
        service.fake.play("p1", [role(), txt(40), cut])

        streamed = await events(service.caller, QUESTION)

    names = [name for name, _ in streamed]
    error = streamed[-1][1]
    assert names == ["sources", *["delta"] * 40, "error"]
    assert (error["status"], error["code"]) == (502, "upstream_incomplete")
    assert [(tried["target"], tried["reason"]) for tried in error["tried"]] == [("p1", "incomplete")]
    assert service.fake.hits["p2"] == []


async def test_a_stream_that_fails_before_its_first_word_says_what_was_tried(failing) -> None:  # type: ignore[no-untyped-def]
    async with failing() as service:
        service.fake.play("p1", [fails("auth")])
        service.fake.play("p2", [fails("quota")])

        streamed = await events(service.caller, QUESTION)

    assert [name for name, _ in streamed] == ["sources", "error"]
    error = streamed[-1][1]
    assert error["code"] == "provider_config"
    assert [(tried["target"], tried["reason"]) for tried in error["tried"]] == [("p1", "config"), ("p2", "quota")]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([fails("rate", {"Retry-After": "7"})], (429, "upstream_rate_limited", "7")),
        ([fails("overloaded")], (503, "upstream_unavailable", "1")),
        ([fails("quota")], (503, "provider_quota", "900")),
        ([blackhole], (504, "upstream_timeout", None)),
        ([fails("server")], (502, "upstream_error", None)),
        ([fails("auth")], (502, "provider_config", None)),
        ([fails("malformed")], (400, "upstream_rejected", None)),
        ([fails("context_length")], (413, "context_length", None)),
        ([fails("policy")], (422, "content_filtered", None)),
        ([role(), fin(), done], (502, "empty_completion", None)),
        ([role(), txt(5), cut], (502, "upstream_incomplete", None)),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
async def test_a_plain_answer_that_fails_has_the_status_of_what_happened(  # type: ignore[no-untyped-def]
    failing, script: Script, expected: tuple[int, str, str | None]
) -> None:
    async with failing(SHORT) as service:
        service.fake.play("p1", script)

        assert await service.plain() == expected


@pytest.mark.parametrize(
    ("script", "pieces"),
    [
        pytest.param([blackhole], 0, id="before the head"),
        pytest.param([role(), stall()], 0, id="before the first word"),
        pytest.param([role(), txt(20), stall()], 20, id="between words"),
        pytest.param([role(), txt(2000, gap_s=0.001), stall()], 5, id="while it answers"),
    ],
)
async def test_bug_17_a_caller_that_leaves_ends_the_request_at_the_provider(  # type: ignore[no-untyped-def]
    failing, script: Script, pieces: int
) -> None:
    patient = {"first_content_timeout_s": 20, "idle_timeout_s": 20}
    async with failing(patient) as service:
        service.fake.play("p1", script)
        headers = {"Authorization": f"Bearer {service.caller.key}"}
        body = {"query": QUESTION, "stream": True}
        async with service.caller.http.stream("POST", "/v1/query", json=body, headers=headers) as response:
            lines = response.aiter_lines()
            for name in ["sources", *["delta"] * pieces]:
                while await anext(lines) != f"event: {name}":
                    pass
            await _until(lambda: service.fake.hits["p1"])
            left_at = time.monotonic()
        await _until(lambda: service.fake.hits["p1"][0].client_closed_at)

        assert service.fake.hits["p1"][0].client_closed_at - left_at <= 0.5
        assert service.theatre.hops["p1"].breaker.state == "closed"
        await _until(lambda: service.theatre.hops["p1"].under_way == 0)


async def test_a_silent_stream_is_kept_open_by_comments(  # type: ignore[no-untyped-def]
    failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PING_S", 0.1)
    async with failing() as service:
        service.fake.play("p1", [role(), stall(0.5), *good(TEXT)[1:]])
        headers = {"Authorization": f"Bearer {service.caller.key}"}
        body = {"query": QUESTION, "stream": True}
        async with service.caller.http.stream("POST", "/v1/query", json=body, headers=headers) as response:
            lines = [line async for line in response.aiter_lines()]

    assert sum(line.startswith(":") for line in lines) >= 3
    assert "event: done" in lines


async def test_the_state_of_each_target_is_in_readyz_and_metrics(failing) -> None:  # type: ignore[no-untyped-def]
    async with failing() as service:
        service.fake.play("p1", [fails("quota")])
        service.fake.play("p2", good(TEXT))
        await service.plain()
        ready = await service.caller.http.get("/readyz")
        service.fake.play("p2", [fails("auth")])
        await service.plain()
        unready = await service.caller.http.get("/readyz")

    assert (ready.status_code, ready.json()["chat"]) == (200, {"p1": "disabled", "p2": "closed"})
    assert ready.json()["chat_means"] == {
        "p1": "refusing: its key, model or credit is not accepted, which needs you; it is tried again in minutes",
        "p2": "in use: it gets requests",
    }
    assert (unready.status_code, unready.json()["code"]) == (503, "upstream_unavailable")
    assert "p1 is disabled (refusing: its key" in unready.json()["detail"]


async def _until(seen) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(3):
        while not seen():
            await asyncio.sleep(0.005)
