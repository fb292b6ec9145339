"""A provider over TCP: how connections end, and who ends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2
import pytest
import pytest_asyncio
from pydantic import SecretStr

from rag.calls import ChatRequest, Message
from rag.llm.endpoint import CLOSING_GRACE_S, ERROR_BODY_S, USAGE_GRACE_S, Endpoint, open_http
from rag.llm.events import End, Event, Text
from rag.llm.failures import Failure
from rag.settings import Target
from tests.integration.llm.fake_server import FakeServer, refusing_url
from tests.integration.llm.fake_steps import (
    Script,
    Step,
    Tokens,
    blackhole,
    comment,
    cut,
    done,
    eof,
    fails,
    fin,
    good,
    head200,
    role,
    rst,
    say,
    slowhead,
    stall,
    status,
    txt,
)  # fmt: skip

pytestmark = pytest.mark.quiet

DIALECTS = ("openai", "anthropic", "gemini", "ollama")
MESSAGES = (Message("user", "How long does a refund take?"),)
REQUEST = ChatRequest("answer", "How long?", (), MESSAGES, max_tokens=300)
PROMPT_S = 0.5  # the contract's limit for an upstream to see that nobody reads any more


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with open_http() as client:
        yield client


def endpoint(fake: FakeServer, http: httpx2.AsyncClient, dialect: str = "openai", url: str = "") -> Endpoint:
    url = url or fake.url("p1", dialect)
    target = Target.model_validate({"name": "p1", "dialect": dialect, "url": url, "model": "m"})
    return Endpoint(target, SecretStr("k"), http)


async def told(asked: Endpoint) -> list[Event]:
    async with aclosing(asked.events(REQUEST)) as events:
        return [event async for event in events]


async def failing(asked: Endpoint) -> Failure:
    with pytest.raises(Failure) as caught:
        await told(asked)
    return caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_comes_through_and_its_connection_is_kept(
    fake: FakeServer, http: httpx2.AsyncClient, dialect: str
) -> None:
    fake.play("p1", good("Five business days [1].", Tokens(10, 4)))
    asked = endpoint(fake, http, dialect)

    answers = [await told(asked) for _ in range(3)]

    for events in answers:
        assert "".join(event.text for event in events if isinstance(event, Text)) == "Five business days [1]."
        assert isinstance(events[-1], End)
        assert (events[-1].usage.input, events[-1].usage.output) == (10, 4)
    assert len(fake.hits["p1"]) == 3
    assert fake.connections == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([rst], "server_error"),
        ([cut], "server_error"),
        ([head200(), cut], "incomplete"),
        ([role(), txt(3), cut], "incomplete"),
        ([role(), txt(3), eof], "incomplete"),
        ([role(), txt(3), stall(0.05), rst], "incomplete"),
        ([fails("overloaded")], "overloaded"),
        ([status(502, b"<html>Bad Gateway</html>")], "server_error"),
        ([status(302, b"", {"Location": "http://127.0.0.1:9/"})], "config"),
    ],
)
async def test_a_network_that_fails_is_a_failure(
    fake: FakeServer, http: httpx2.AsyncClient, dialect: str, script: Script, reason: str
) -> None:
    fake.play("p1", script)

    failure = await failing(endpoint(fake, http, dialect))

    assert failure.reason == reason
    assert len(fake.hits["p1"]) == 1


@pytest.mark.parametrize("end", [cut, rst], ids=["cut", "reset"])
async def test_a_kept_connection_that_ends_at_the_next_request_is_a_failure_and_not_asked_twice(
    fake: FakeServer, http: httpx2.AsyncClient, end: Step
) -> None:
    fake.play("p1", good(), [end], good())
    asked = endpoint(fake, http)
    await told(asked)

    failure = await failing(asked)

    assert failure.reason == "server_error"  # it may have read the prompt
    assert (len(fake.hits["p1"]), fake.connections) == (2, 1)


async def test_an_answer_that_is_whole_survives_a_bad_end(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", [role(), say("Five"), fin("stop"), stall(0.05), rst])

    events = await told(endpoint(fake, http))

    assert events[-1].__class__ is End


async def test_nobody_at_the_address_is_a_failure_to_connect(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    refused = await failing(endpoint(fake, http, url=refusing_url()))
    no_such_host = await failing(endpoint(fake, http, url="http://no-such-host.invalid"))
    no_tls = await failing(endpoint(fake, http, url=fake.url("p1").replace("http:", "https:")))

    assert {refused.reason, no_such_host.reason, no_tls.reason} == {"connect"}
    assert (refused.status, refused.usage) == (None, None)


async def test_how_long_to_stay_away_comes_with_a_refusal(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", [fails("rate", {"Retry-After": "7"})])

    failure = await failing(endpoint(fake, http))

    assert (failure.reason, failure.retry_after_s, failure.retry_after_guessed) == ("rate_limited", 7, False)
    assert failure.status == 429


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_that_is_whole_does_not_wait_for_the_last_marker(
    fake: FakeServer, http: httpx2.AsyncClient, dialect: str
) -> None:
    fake.play("p1", [role(), say("Five"), fin("stop", Tokens()), stall()])
    started = time.monotonic()

    events = await told(endpoint(fake, http, dialect))

    assert isinstance(events[-1], End)
    assert events[-1].usage.output == 5
    assert time.monotonic() - started < CLOSING_GRACE_S + PROMPT_S


async def test_a_wait_for_usage_is_shorter_than_the_silence_that_is_a_fault(
    fake: FakeServer, http: httpx2.AsyncClient
) -> None:
    fake.play("p1", [role(), say("Five"), fin("stop"), stall()])
    target = {"name": "p1", "dialect": "openai", "url": fake.url("p1"), "model": "m", "idle_timeout_s": 0.4}
    events = Endpoint(Target.model_validate(target), None, http).events(REQUEST)

    async with asyncio.timeout(0.4), aclosing(events):
        last = [event async for event in events][-1]

    assert isinstance(last, End)


async def test_usage_is_waited_for_but_not_long(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", [role(), say("Five"), fin("stop"), *[step for _ in range(40) for step in (stall(0.1), comment)]])
    started = time.monotonic()

    events = await told(endpoint(fake, http))

    assert isinstance(events[-1], End)
    assert USAGE_GRACE_S <= time.monotonic() - started < USAGE_GRACE_S + PROMPT_S


@pytest.mark.parametrize(
    "script",
    [
        [blackhole],
        [head200(), stall()],
        [role(), stall()],
        [role(), txt(3), stall()],
        [role(), txt(1000, gap_s=0.01)],
        [role(), say("Five"), fin("stop"), stall()],
    ],
)
async def test_cancelling_closes_the_connection_in_every_phase(
    fake: FakeServer, http: httpx2.AsyncClient, script: Script
) -> None:
    fake.play("p1", script)
    reading = asyncio.create_task(told(endpoint(fake, http)))
    await asyncio.sleep(0.1)

    reading.cancel()
    cancelled_at = time.monotonic()
    [outcome] = await asyncio.gather(reading, return_exceptions=True)
    await asyncio.sleep(0.1)

    [hit] = fake.hits["p1"]
    assert isinstance(outcome, asyncio.CancelledError)
    assert hit.client_closed_at is not None
    assert hit.client_closed_at - cancelled_at < PROMPT_S


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_closing_the_events_closes_the_connection(
    fake: FakeServer, http: httpx2.AsyncClient, dialect: str
) -> None:
    fake.play("p1", [role(), txt(1000, gap_s=0.01)])
    events = endpoint(fake, http, dialect).events(REQUEST)
    while not isinstance(await anext(events), Text):
        pass

    await events.aclose()
    closed_at = time.monotonic()
    await asyncio.sleep(0.1)

    [hit] = fake.hits["p1"]
    assert hit.client_closed_at is not None
    assert hit.client_closed_at - closed_at < PROMPT_S


async def test_cancelled_calls_leave_no_connection_behind(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", *[[slowhead(0.2), *good()]] * 20, good())
    calls = [asyncio.create_task(told(endpoint(fake, http))) for _ in range(20)]
    await asyncio.sleep(0.05)
    for call in calls:
        call.cancel()
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    answer = await told(endpoint(fake, http))
    await asyncio.sleep(0.3)  # until the fake has noticed, also on a busy machine

    assert isinstance(answer[-1], End)
    assert all(hit.client_closed_at for hit in fake.hits["p1"][:-1])


async def test_nothing_of_an_attempt_is_left_for_the_next(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", good("First.", Tokens(7, 7)), [role(), say("Second"), eof], [role(), say("Third"), fin(), done])
    asked = endpoint(fake, http)

    await told(asked)
    failure = await failing(asked)
    third = await told(asked)

    assert failure.reason == "incomplete"
    assert isinstance(third[-1], End)
    assert third[-1].usage.output is None


async def test_an_error_body_that_does_not_come_is_not_waited_for(fake: FakeServer, http: httpx2.AsyncClient) -> None:
    fake.play("p1", [status(503, b"", {"Content-Length": "100", "Retry-After": "3"}), stall()])
    started = time.monotonic()

    failure = await failing(endpoint(fake, http))

    assert (failure.reason, failure.retry_after_s) == ("overloaded", 3)
    assert ERROR_BODY_S <= time.monotonic() - started < ERROR_BODY_S + PROMPT_S
