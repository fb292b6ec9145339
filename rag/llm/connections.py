"""A transport of httpx2 for streamed answers, over aiohttp: little work for each frame."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

EXPIRY_S = 5.0  # httpx2's own: servers close idle connections, few within that time
MAX_FIELD_BYTES = 64 * 1024  # of a response's header
ITS_OWN_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # httpx2 has decided on them


class Connections(httpx2.AsyncBaseTransport):
    """HTTP/1.1 without a proxy; of the request's time limits it keeps that of connecting.

    httpx2's own looks at every kept socket twice a request and wakes a dozen layers for each frame: at fifty streams
    it takes half of all time. What has come by now is handed on in one piece here, however many frames it holds.
    """

    def __init__(self) -> None:
        """Keep idle connections for a moment, and open as many as are asked for; within a running loop."""
        self._http = aiohttp.ClientSession(
            connector=_Connector(ssl=httpx2.create_ssl_context(), limit=0, keepalive_timeout=EXPIRY_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=ITS_OWN_HEADERS,
            auto_decompress=False,  # that is httpx2's part
            max_line_size=MAX_FIELD_BYTES,
            max_field_size=MAX_FIELD_BYTES,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response as it begins; when it is closed, its connection is free again, or closed too."""
        url = request.url
        if url.scheme not in {"http", "https"}:
            raise httpx2.UnsupportedProtocol("neither http nor https")
        body = await request.aread()
        encoding = request.headers.encoding
        sent = [(name.decode(encoding), value.decode(encoding)) for name, value in request.headers.raw]
        headers = [(name, value) for name, value in sent if name.lower() != "transfer-encoding"]  # all of it is here
        limit_s = request.extensions.get("timeout", {}).get("connect")
        with _errors_of_httpx2():
            response = await self._http.request(
                request.method,
                URL(f"{url.scheme}://{url.netloc.decode()}{url.raw_path.decode()}", encoded=True),
                data=io.BytesIO(body) if body else None,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=limit_s),
            )
        return httpx2.Response(response.status, headers=list(response.raw_headers), stream=_Body(response))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.close()


class _Connector(aiohttp.TCPConnector):
    """Closes at once what aiohttp would first send the rest over, and hands out nothing that spoke out of turn."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None:
                return connection
            protocol.close = protocol.abort  # type: ignore[method-assign] # a closing waits for a stuck peer
            if not protocol.should_close:
                return connection
            connection.close()  # bytes behind the last response would be taken for the next


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._response.content
        with _errors_of_httpx2():
            try:
                async for piece in content.iter_any():
                    yield piece
            except aiohttp.ClientError:
                if came := content._read_nowait(-1):
                    yield came
                raise

    async def aclose(self) -> None:
        self._response.close()  # one that is whole has given its connection back already


@contextmanager
def _errors_of_httpx2() -> Iterator[None]:
    """Raises what httpx2 would have; the messages name the kind alone."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as exc:
        raise httpx2.ConnectTimeout("no connection in time") from exc
    except aiohttp.ClientConnectorError as exc:  # also of TLS and of names
        raise httpx2.ConnectError(type(exc).__name__) from exc
    except aiohttp.ClientOSError as exc:
        raise httpx2.ReadError(type(exc).__name__) from exc
    except ValueError as exc:  # of the URL or a header
        raise httpx2.LocalProtocolError(type(exc).__name__) from exc
    except aiohttp.ClientError as exc:  # cut or garbled
        raise httpx2.RemoteProtocolError(type(exc).__name__) from exc
