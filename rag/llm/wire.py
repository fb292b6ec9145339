"""HTTP/1.1 over asyncio, as far as a streamed answer needs it: one request, one response, all that has come at once."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator

import httpx2

MAX_HEAD_BYTES = 64 * 1024
HIGH_WATER_BYTES = 1024 * 1024  # received and not yet asked for: then the sender has to wait
BODILESS = frozenset({204, 304})
MAX_SIZE_LINE = 1024
LINE_END = len(b"\r\n")
SUCCESS = 200  # what comes below is not yet the response

_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_LENGTH = re.compile(rb"\d{1,15}")

Headers = list[tuple[bytes, bytes]]


class Wire(asyncio.Protocol):
    """A connection. What has come is read by one reader at a time."""

    def __init__(self) -> None:
        """Wait for a connection."""
        self.held = bytearray()
        self.ended = False
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio's promise for a stream
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hold what came."""
        self.held += data
        if len(self.held) > HIGH_WATER_BYTES and self._transport and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        """Note the end; a reset and a close are the same to an answer that is not whole."""
        self.ended = True
        self._wake()

    def write(self, data: bytes) -> None:
        """Send *data* as soon as it can be."""
        if self._transport and not self.ended:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection at once, whatever is still under way."""
        if self._transport:
            self._transport.abort()

    async def more(self) -> bool:
        """Whether more came than was held; False at the connection's end."""
        before = len(self.held)
        while len(self.held) == before:
            if self.ended:
                return False
            if self._paused and self._transport:
                self._paused = False
                self._transport.resume_reading()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return True

    def _wake(self) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)


class Exchange:
    """One request and its response over a wire."""

    def __init__(self, wire: Wire) -> None:
        """Speak over *wire*."""
        self._wire = wire
        self._left = 0  # of the chunk that is read, with the end of its line
        self.whole = False  # the response has ended where it said
        self.keeps_alive = False

    async def ask(self, request: httpx2.Request) -> tuple[int, Headers]:
        """Send the request, and wait for the status and headers of its response.

        Raises httpx2's errors.
        """
        parts = [b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), request.url.raw_path)]
        for name, value in request.headers.raw:
            if b"\r" in value or b"\n" in value:
                raise httpx2.LocalProtocolError("a header with a line break")
            parts.append(b"%b: %b\r\n" % (name, value))
        parts.append(b"\r\n")
        if isinstance(request.stream, httpx2.AsyncByteStream):
            parts += [part async for part in request.stream]
        self._wire.write(b"".join(parts))
        status, headers = await self._head()
        while status < SUCCESS:
            status, headers = await self._head()
        return status, headers

    def body(self, status: int, headers: Headers) -> AsyncIterator[bytes]:
        """All that has come of the body, again and again until its end."""
        found = {name.lower(): value for name, value in headers}
        self.keeps_alive = self.keeps_alive and b"close" not in found.get(b"connection", b"").lower()
        if status in BODILESS:
            return self._sized(0)
        if found.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
            return self._chunked()
        if (length := found.get(b"content-length")) is None:
            return self._until_the_end()
        if not _LENGTH.fullmatch(length):
            raise httpx2.RemoteProtocolError("a Content-Length that is no number")
        return self._sized(int(length))

    async def _head(self) -> tuple[int, Headers]:
        first, *lines = (await self._until(b"\r\n\r\n", MAX_HEAD_BYTES)).split(b"\r\n")
        matched = _STATUS.match(first)
        if not matched:
            raise httpx2.RemoteProtocolError("an answer that is not HTTP/1.1")
        self.keeps_alive = matched[1] == b"1"
        fields = [line.partition(b":") for line in lines]
        if any(not colon or name.strip() != name for name, colon, _ in fields):
            raise httpx2.RemoteProtocolError("a header that is none")
        return int(matched[2]), [(name, value.strip()) for name, _, value in fields]

    async def _until(self, mark: bytes, most: int) -> bytes:
        """What comes before *mark*, which is taken too."""
        held = self._wire.held
        start = 0
        while (end := held.find(mark, start)) < 0:
            if len(held) > most:
                raise httpx2.RemoteProtocolError("no end of a line or head")
            start = max(0, len(held) - len(mark))
            if not await self._wire.more():
                raise httpx2.RemoteProtocolError("the connection closed before the response was whole")
        found = bytes(held[:end])
        del held[: end + len(mark)]
        return found

    async def _chunked(self) -> AsyncIterator[bytes]:
        while True:
            pieces, last = self._chunks()
            if pieces:
                yield b"".join(pieces)
            elif not last:
                await self._need_more()  # nothing came while the last piece was read
            if last:
                break
        while await self._until(b"\r\n", MAX_HEAD_BYTES):
            pass  # trailers
        self.whole = True

    def _chunks(self) -> tuple[list[bytes], bool]:
        """What is held of the chunks, and whether the last of them has come."""
        held, pieces, at = self._wire.held, list[bytes](), 0
        last = False
        while not last:
            taken = min(self._left, len(held) - at)
            if (data := min(taken, self._left - LINE_END)) > 0:
                pieces.append(bytes(held[at : at + data]))
            self._left -= taken
            at += taken
            end = held.find(b"\r\n", at, at + MAX_SIZE_LINE)
            if self._left or end < 0:
                break
            size = _size(bytes(held[at:end]))
            at, last = end + LINE_END, size == 0
            self._left = 0 if last else size + LINE_END
        if not self._left and not last and len(held) - at >= MAX_SIZE_LINE:
            raise httpx2.RemoteProtocolError("a chunk without a size")
        del held[:at]
        return pieces, last

    async def _sized(self, left: int) -> AsyncIterator[bytes]:
        held = self._wire.held
        while left:
            if not held:
                await self._need_more()
            piece = bytes(held[:left])
            del held[:left]
            left -= len(piece)
            yield piece
        self.whole = True

    async def _until_the_end(self) -> AsyncIterator[bytes]:
        self.keeps_alive = False
        held = self._wire.held
        while held or await self._wire.more():
            piece = bytes(held)
            held.clear()
            yield piece
        self.whole = True

    async def _need_more(self) -> None:
        if not await self._wire.more():
            raise httpx2.RemoteProtocolError("the connection closed before the response was whole")


def _size(line: bytes) -> int:
    matched = _SIZE.match(line)  # what stands behind it are extensions
    if not matched:
        raise httpx2.RemoteProtocolError("a chunk without a size")
    return int(matched[0], 16)


async def connect(url: httpx2.URL, tls: ssl.SSLContext, timeout_s: float | None) -> Wire:
    """A connection to the origin of *url*.

    Raises httpx2's ConnectTimeout and ConnectError.
    """
    secure = url.scheme == "https"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, wire = await loop.create_connection(
                Wire, url.host, url.port or (443 if secure else 80), ssl=tls if secure else None,
                happy_eyeballs_delay=0.25,
            )  # fmt: skip
    except TimeoutError as exc:
        raise httpx2.ConnectTimeout("no connection in time") from exc
    except OSError as exc:  # also of TLS and of names
        raise httpx2.ConnectError(type(exc).__name__) from exc
    return wire
