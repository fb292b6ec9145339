"""Many clients against a scripted service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, repeat

import httpx2
import pytest

from eval.bench.clients import Answer, Request, press, send
from eval.errors import CannotRun

SEARCH = Request("search", "POST", "/v1/search", "the-key", json={"query": "?"})


def client(handler: Callable[[httpx2.Request], httpx2.Response]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url="http://service", transport=httpx2.MockTransport(handler))


def answer(status: str, retry_after_s: float | None = None) -> Answer:
    return Answer(SEARCH, status, 1.0, retry_after_s)


@pytest.mark.parametrize(
    ("one", "succeeded", "faulty"),
    [
        (answer("200"), True, False),
        (answer("202"), True, False),
        (answer("429"), False, False),
        (answer("503", retry_after_s=2.0), False, False),
        (answer("503"), False, True),
        (answer("500", retry_after_s=2.0), False, True),
        (answer("504"), False, True),
        (answer("ReadTimeout"), False, True),
    ],
)
def test_only_a_503_that_names_a_time_is_a_clean_refusal(one: Answer, succeeded: bool, faulty: bool) -> None:
    assert (one.succeeded, one.faulty) == (succeeded, faulty)


async def test_a_request_is_sent_with_its_key_and_body() -> None:
    seen: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(202, json={"job_id": "7"}, headers={"Retry-After": "3"})

    async with client(handler) as http:
        found = await send(http, Request("upload", "PUT", "/v1/documents/a.md", "the-key", content=b"# A"))

    assert (seen[0].method, seen[0].url.path, seen[0].content) == ("PUT", "/v1/documents/a.md", b"# A")
    assert (seen[0].headers["Authorization"], seen[0].headers["Content-Type"]) == ("Bearer the-key", "text/markdown")
    assert (found.kind, found.status, found.retry_after_s, found.body) == ("upload", "202", 3.0, {"job_id": "7"})


async def test_a_fault_of_the_connection_is_an_answer_by_its_name() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("stuck", request=request)

    async with client(handler) as http:
        found = await send(http, SEARCH)

    assert (found.status, found.faulty) == ("ReadTimeout", True)


async def test_an_answer_that_is_not_json_ends_the_run() -> None:
    async with client(lambda _: httpx2.Response(502, text="<html>")) as http:
        with pytest.raises(CannotRun, match="502: <html>"):
            await send(http, SEARCH)


async def test_every_client_has_one_request_under_way_until_the_time_is_over() -> None:
    under_way, most = 0, 0

    async def handler(_: httpx2.Request) -> httpx2.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return httpx2.Response(200, json={})

    async with httpx2.AsyncClient(base_url="http://service", transport=httpx2.MockTransport(handler)) as http:
        phase = await press(http, repeat(SEARCH), clients=5, seconds=0.1)

    assert most == 5
    assert len(phase.answers) >= 10
    assert 0.1 <= phase.seconds < 5


async def test_a_client_that_is_told_to_wait_sends_nothing_before_the_end() -> None:
    refused = httpx2.Response(503, json={}, headers={"Retry-After": "60"})
    numbers = count()

    def requests() -> Iterator[Request]:
        while True:
            next(numbers)
            yield SEARCH

    async with client(lambda _: refused) as http:
        phase = await press(http, requests(), clients=3, seconds=0.1)

    assert len(phase.answers) == next(numbers) == 3
    assert phase.seconds < 5
