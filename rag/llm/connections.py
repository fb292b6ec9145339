"""Kept connections, the last used first: to find one costs the same with one of them as with a hundred."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

import httpx2

EXPIRY_S = 5.0  # httpx2's own: servers close idle connections, few within that time
ONE = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=EXPIRY_S)

Origin = tuple[str, str, int | None]


class Connections(httpx2.AsyncBaseTransport):
    """One of httpx2's transports for each connection.

    A pool of httpx2 looks at every kept socket twice a request: with fifty of them, that is half of the request's time.
    """

    def __init__(self, kept: int) -> None:
        """Keep up to *kept* idle connections of each origin."""
        self._kept = kept
        self._tls = httpx2.create_ssl_context()  # reading the certificates takes longer than connecting
        self._idle: defaultdict[Origin, deque[tuple[float, httpx2.AsyncHTTPTransport]]] = defaultdict(deque)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response as it begins; when it is closed, its connection is free again."""
        origin = request.url.scheme, request.url.host, request.url.port
        idle = self._idle[origin]
        transport = idle.pop()[1] if idle else httpx2.AsyncHTTPTransport(verify=self._tls, limits=ONE)
        answered = False
        try:
            response = await transport.handle_async_request(request)
            answered = True
        finally:
            if not answered:
                await transport.aclose()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Body(response.stream, lambda: self._release(origin, transport))
        return response

    async def aclose(self) -> None:
        """Close what is idle; the others close with their responses."""
        self._kept = 0
        for idle in self._idle.values():
            while idle:
                await idle.popleft()[1].aclose()

    async def _release(self, origin: Origin, transport: httpx2.AsyncHTTPTransport) -> None:
        now = time.monotonic()
        idle = self._idle[origin]
        idle.append((now, transport))
        if len(idle) > self._kept or idle[0][0] < now - EXPIRY_S:
            await idle.popleft()[1].aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes], release: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._release = release
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if isinstance(self._stream, httpx2.AsyncByteStream):
                await self._stream.aclose()
        finally:
            await self._release()
