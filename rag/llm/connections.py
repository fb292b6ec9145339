"""A transport of httpx2 for streamed answers: kept connections, the last used first, and little work for each frame."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable

import httpx2

from rag.llm.wire import Exchange, Wire, connect

EXPIRY_S = 5.0  # httpx2's own: servers close idle connections, few within that time

Origin = tuple[str, str, int | None]


class Connections(httpx2.AsyncBaseTransport):
    """HTTP/1.1 without a proxy; of the request's time limits it keeps that of connecting.

    httpx2's own looks at every kept socket twice a request and wakes a dozen layers for each frame: at fifty streams
    it takes half of all time. What has come by now is handed on in one piece here, however many frames it holds.
    """

    def __init__(self, kept: int) -> None:
        """Keep up to *kept* idle connections of each origin."""
        self._kept = kept
        self._tls = httpx2.create_ssl_context()
        self._idle: defaultdict[Origin, deque[tuple[float, Wire]]] = defaultdict(deque)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response as it begins; when it is closed, its connection is free again, or closed too."""
        url = request.url
        if url.scheme not in {"http", "https"}:
            raise httpx2.UnsupportedProtocol("neither http nor https")
        origin = url.scheme, url.host, url.port
        wire = self._kept_wire(origin)
        if wire is None:
            wire = await connect(url, self._tls, request.extensions.get("timeout", {}).get("connect"))
        exchange, answered = Exchange(wire), False
        try:
            status, headers = await exchange.ask(request)
            content = exchange.body(status, headers)
            answered = True
        finally:
            if not answered:
                wire.close()
        return httpx2.Response(
            status, headers=headers, stream=_Body(content, lambda: self._release(origin, wire, exchange))
        )

    async def aclose(self) -> None:
        """Close what is idle; the others close with their responses."""
        self._kept = 0
        for idle in self._idle.values():
            while idle:
                idle.pop()[1].close()

    def _kept_wire(self, origin: Origin) -> Wire | None:
        idle = self._idle[origin]
        while idle:
            since, wire = idle.pop()
            if not wire.ended and not wire.held and since >= time.monotonic() - EXPIRY_S:
                return wire
            wire.close()
        return None

    def _release(self, origin: Origin, wire: Wire, exchange: Exchange) -> None:
        if not (exchange.whole and exchange.keeps_alive) or wire.ended:
            wire.close()
            return
        now = time.monotonic()
        idle = self._idle[origin]
        idle.append((now, wire))
        while idle and (len(idle) > self._kept or idle[0][0] < now - EXPIRY_S):
            idle.popleft()[1].close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, content: AsyncIterator[bytes], release: Callable[[], None]) -> None:
        self._content = content
        self._release = release
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._content

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()
