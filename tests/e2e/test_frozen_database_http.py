"""A PostgreSQL that takes what it is sent and answers nothing: every request still ends, and all is well afterwards."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import repeat
from uuid import uuid4

import httpx2
import psycopg
import pytest

from rag.api.health import PROBE_S
from rag.waiting import CANCELLING_S
from tests.e2e.conftest import Caller, OpenFake, document
from tests.e2e.test_answer_cache_http import CACHED
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.e2e.test_query_http import events
from tests.integration.caching import ScriptedChat
from tests.integration.crashing import Machine, running_machine

TIMEOUT_S = 2.0
MARGIN_S = 1.0  # for a busy machine
WHOLE_S = 20.0  # until the pool has connections again
FROZEN_S = 18.0  # the driver has closed what was abandoned by then, and the pool has failed to replace it
POOL_SIZE = 4  # of the app with fakes
REQUESTS = (
    ("POST", "/v1/search", {"query": QUESTION}),
    ("POST", "/v1/query", {"query": QUESTION}),
    ("POST", "/v1/query", {"query": QUESTION, "stream": True}),
    ("GET", document("refunds.md"), None),
)
LATE = (504, "deadline_exceeded", "application/problem+json")
UNAVAILABLE = (503, "store_unavailable", "application/problem+json")
Timed = tuple[httpx2.Response, float]

pytestmark = pytest.mark.quiet


@pytest.fixture
def machine(process_environment: dict[str, str]) -> Iterator[Machine]:
    with running_machine(process_environment, random.Random(0)) as made:
        yield made


@pytest.fixture
def clone(machine: Machine) -> Callable[[], str]:
    """The database of the app: on a server that can be frozen without all other tests."""
    return lambda: machine.server.url


@pytest.fixture
def drop() -> Callable[[str], None]:
    """It goes with its server."""
    return lambda _: None


async def timed(answer: Awaitable[httpx2.Response]) -> Timed:
    started = time.monotonic()
    return await asyncio.wait_for(answer, TIMEOUT_S + PROBE_S + 10 * MARGIN_S), time.monotonic() - started


async def asked(caller: Caller) -> list[Timed]:
    """The answers to REQUESTS, all asked at once."""
    return await asyncio.gather(*(timed(caller.send(method, path, json=body)) for method, path, body in REQUESTS))


async def whole_again(caller: Caller) -> list[int]:
    """The states of all answers once the service says that it is ready."""
    give_up = time.monotonic() + WHOLE_S
    while (await caller.http.get("/readyz")).status_code != 200 and time.monotonic() < give_up:
        await asyncio.sleep(0.1)
    return [response.status_code for response, _ in await asked(caller)]


def busy(machine: Machine) -> tuple[int, int]:
    """The connections of the service on the server, and how many of them are in the middle of something."""
    query = (
        "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(machine.server.url) as connection:
        [(all_of_them, in_use)] = connection.execute(query).fetchall()
    return int(all_of_them), int(in_use)


def problems(found: list[Timed]) -> set[tuple[int, str, str]]:
    return {(r.status_code, r.json()["code"], r.headers["content-type"]) for r, _ in found}


async def test_every_request_is_answered_in_time_and_all_is_whole_after_the_thaw(
    fake_service: OpenFake, machine: Machine
) -> None:
    async with fake_service(request_timeout_s=TIMEOUT_S) as fake:
        caller = await with_a_document(fake)
        await asked(caller)
        frozen_until = time.monotonic() + FROZEN_S
        with machine.frozen():
            first = await asked(caller)
            without_connections = await asked(caller)
            probes = await asyncio.gather(*map(timed, (caller.http.get("/readyz") for _ in repeat(None, 2))))
            await asyncio.sleep(max(0.0, frozen_until - time.monotonic()))
        states = await whole_again(caller)
        await asyncio.sleep(CANCELLING_S)

        assert states == [200] * len(REQUESTS)
        connections, in_use = busy(machine)

    assert problems(first) <= {LATE, UNAVAILABLE}  # the pool may not have had a connection for each yet
    assert LATE in problems(first)
    assert problems(without_connections) == problems(probes) == {UNAVAILABLE}
    assert max(seconds for _, seconds in first + without_connections) < TIMEOUT_S + MARGIN_S
    assert max(seconds for _, seconds in probes) < PROBE_S + MARGIN_S
    assert connections <= POOL_SIZE
    assert in_use == 0


async def test_a_probe_is_answered_while_nothing_else_has_noticed(fake_service: OpenFake, machine: Machine) -> None:
    async with fake_service() as fake:
        await fake.http.get("/readyz")
        with machine.frozen():
            probe, took_s = await timed(fake.http.get("/readyz"))

    assert (probe.status_code, probe.json()["code"]) == (503, "store_unavailable")
    assert probe.json()["detail"] == f"the database did not answer within {PROBE_S:g} s"
    assert took_s < PROBE_S + MARGIN_S


async def test_a_stream_under_way_ends_with_an_error_in_time(fake_service: OpenFake, machine: Machine) -> None:
    chat = ScriptedChat(meanwhile=partial(asyncio.sleep, 0.5))
    async with fake_service(chat, request_timeout_s=TIMEOUT_S, **CACHED) as fake:
        caller = await with_a_document(fake)
        started = time.monotonic()
        stream = asyncio.create_task(events(caller, QUESTION))
        while not chat.requests:
            await asyncio.sleep(0.01)
        with machine.frozen():
            found = await asyncio.wait_for(stream, 10 * TIMEOUT_S)
            took_s = time.monotonic() - started

    assert [name for name, _ in found][-1] == "error"
    assert found[-1][1]["code"] == "deadline_exceeded"
    assert took_s < TIMEOUT_S + CANCELLING_S + MARGIN_S


async def test_an_upload_given_up_in_the_frost_and_sent_again_is_one_job(
    fake_service: OpenFake, machine: Machine
) -> None:
    async with fake_service(request_timeout_s=TIMEOUT_S) as fake:
        caller = await with_a_document(fake)
        headers = {"Idempotency-Key": str(uuid4()), "Content-Type": "text/markdown"}
        with machine.frozen():
            frozen, took_s = await timed(
                caller.send("PUT", document("a.md"), content=b"# Pump\n\nOil.\n", headers=headers)
            )
        await whole_again(caller)
        again = [
            await caller.send("PUT", document("a.md"), content=b"# Pump\n\nOil.\n", headers=headers)
            for _ in repeat(None, 2)
        ]
        with psycopg.connect(machine.server.url) as connection:
            [(jobs,)] = connection.execute("SELECT count(*) FROM jobs WHERE external_id = 'a.md'").fetchall()

    assert (frozen.status_code, frozen.json()["code"]) == (504, "deadline_exceeded")
    assert took_s < TIMEOUT_S + MARGIN_S
    assert [response.status_code for response in again] == [202, 202]
    assert jobs == 1
