"""What every request passes first: an id, a size limit, a count."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag.api.problems import problem_body, problem_response
from rag.errors import DeadlineExceeded
from rag.telemetry import Metrics, request_id

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


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Run the block, but not longer than *seconds*.

    Raises DeadlineExceeded.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        raise DeadlineExceeded(f"not done within {seconds:g} s (RAG_REQUEST_TIMEOUT_S)") from exc


class _TooLong(BaseException):
    """Passes the handlers of ordinary exceptions on its way out."""
