"""What every request passes first: an id, a size limit, a count, a time limit."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag.api.problems import problem_body, problem_response
from rag.errors import DeadlineExceeded
from rag.telemetry import Metrics, request_id
from rag.values import Deadline
from rag.waiting import in_time

DRAINED = 4  # times the limit: who sends more has to live with a reset
DRAIN_S, DRAIN_IDLE_S = 30.0, 1.0
_SANE_ID = re.compile(r"[\w.\-]{1,64}")


class RequestFrame:
    """Gives each request an id and counts it when its last byte is sent."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Wrap *app*."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id.set(given if _SANE_ID.fullmatch(given) else uuid4().hex)
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id.get()
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)


class BodyLimit:
    """Refuses bodies over the limit before they are read, whatever their headers say."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        """Wrap *app*."""
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        declared = Headers(scope=scope).get("content-length", "0") if scope["type"] == "http" else "0"
        if declared.isdigit() and int(declared) > self._max_bytes:
            await self._refuse(scope, receive, send)
            return
        received = 0
        started = False

        async def measured() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise _TooLong
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, measured, watched)
        except _TooLong:
            if not started:
                await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is larger than {self._max_bytes} bytes (RAG_MAX_BODY_BYTES)"
        body = problem_body(413, code="too_large", detail=detail)
        response = problem_response(scope["path"], body, 413, {"Connection": "close"})
        await send({"type": "http.response.start", "status": 413, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        # the answer is whole; ended now, a connection on which the caller still sends is reset and the answer lost
        await _drain(receive, DRAINED * self._max_bytes)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive, max_bytes: int) -> None:
    """Read what the caller is still sending, for a while."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while max_bytes > 0:
                message = await asyncio.wait_for(receive(), DRAIN_IDLE_S)
                max_bytes -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return


class InTime(APIRoute):
    """A route with RAG_REQUEST_TIMEOUT_S for all that is waited for, its caller's key too, until the response begins.

    The time counts from the last piece of the request: a long upload takes as long as its caller needs.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            seconds = request.state.services.settings.request_timeout_s
            body = _Arriving(request.receive, seconds)
            return await in_time(handle(Request(request.scope, body)), body.left_s, late=partial(too_late, seconds))

        return handled


class _Arriving:
    """The pieces of a request, and the seconds that are left to answer it."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._seconds = seconds
        self._deadline = Deadline.after(seconds)
        self._awaited = self._whole = False

    async def __call__(self) -> Message:
        if self._whole:  # who asks now wants to know whether the caller is still there
            return await self._receive()
        self._awaited = True
        try:
            message = await self._receive()
        finally:
            self._awaited = False
            self._deadline = Deadline.after(self._seconds)
        self._whole = not message.get("more_body")
        return message

    def left_s(self) -> float:
        """All of them while the caller is waited for."""
        return self._seconds if self._awaited else self._deadline.remaining_s()


def too_late(seconds: float) -> DeadlineExceeded:
    """The error of a request that took longer than *seconds*."""
    return DeadlineExceeded(f"not done within {seconds:g} s (RAG_REQUEST_TIMEOUT_S)")


class _TooLong(BaseException):
    """Passes the handlers of ordinary exceptions on its way out."""
