"""Many HTTP clients at once, each with one request under way, until a time is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from eval.errors import CannotRun

TIMEOUT_S = 60.0  # twice the service's own deadline: what has no answer by then is stuck
OK, SERVER_FAULT, UNAVAILABLE = 300, 500, 503


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: a JSON body for a search, bytes for an upload."""

    kind: str
    method: str
    path: str
    key: str
    json: Mapping[str, object] | None = None
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request; `status` is the HTTP one, or the name of the fault that left it without an answer."""

    request: Request
    status: str
    elapsed_ms: float
    retry_after_s: float | None = None
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What was asked for."""
        return self.request.kind

    @property
    def succeeded(self) -> bool:
        """Whether it is what was asked for."""
        return self.status.isdecimal() and int(self.status) < OK

    @property
    def faulty(self) -> bool:
        """Whether the service broke: no answer, or a 5xx that is not a 503 with the time to try again."""
        if not self.status.isdecimal():
            return True
        code = int(self.status)
        return code >= SERVER_FAULT and not (code == UNAVAILABLE and self.retry_after_s is not None)


@dataclass(frozen=True, slots=True)
class Phase:
    """The answers to all that was sent, and the seconds until the last came."""

    answers: tuple[Answer, ...]
    seconds: float


async def press(http: httpx2.AsyncClient, requests: Iterator[Request], *, clients: int, seconds: float) -> Phase:
    """What comes of *requests* that so many clients send, each the next as soon as its last is answered.

    No request is sent after *seconds*; those under way are waited for. A client that is told to try again later waits.
    """
    started = time.monotonic()
    told = await asyncio.gather(*(_client(http, requests, started + seconds) for _ in range(clients)))
    return Phase(tuple(answer for answers in told for answer in answers), time.monotonic() - started)


async def send(http: httpx2.AsyncClient, request: Request) -> Answer:
    """What comes of one request."""
    kind = {"Content-Type": "text/markdown"} if request.content is not None else {}
    headers = {"Authorization": f"Bearer {request.key}", **kind}
    started = time.perf_counter()
    try:
        response = await http.request(
            request.method, request.path, json=request.json, content=request.content, headers=headers
        )
    except httpx2.TransportError as exc:  # a timeout is one
        return Answer(request, type(exc).__name__, (time.perf_counter() - started) * 1000)
    elapsed_ms = (time.perf_counter() - started) * 1000
    after = response.headers.get("Retry-After")
    body = _body(request, response)
    return Answer(request, str(response.status_code), elapsed_ms, float(after) if after else None, body)


async def _client(http: httpx2.AsyncClient, requests: Iterator[Request], until: float) -> list[Answer]:
    answers: list[Answer] = []
    while time.monotonic() < until:
        answer = await send(http, next(requests))
        answers.append(answer)
        if answer.retry_after_s:
            await asyncio.sleep(max(0.0, min(answer.retry_after_s, until - time.monotonic())))
    return answers


def _body(request: Request, response: httpx2.Response) -> Mapping[str, Any]:
    try:
        body: Mapping[str, Any] = response.json()
    except ValueError as exc:
        said = f"{response.status_code}: {response.text[:300]}"
        raise CannotRun(f"{request.method} {request.path} was answered with something else than JSON: {said}") from exc
    return body
