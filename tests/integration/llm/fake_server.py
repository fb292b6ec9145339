"""A provider of chat models that does what a script says: it stalls, resets, cuts and garbles as no test server can."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.integration.llm.fake_rendering import RENDERINGS, Rendering
from tests.integration.llm.fake_steps import Script, Step, good

LAST_CHUNK = b"0\r\n\r\n"
ROUTES = {
    "/chat/completions": "openai", "/v1/messages": "anthropic",
    ":streamGenerateContent": "gemini", "/api/chat": "ollama",
}  # fmt: skip
KINDS = {"sse": "text/event-stream", "json": "application/json"}
BASES = {"openai": "/v1", "anthropic": "", "gemini": "", "ollama": ""}


@dataclass
class Hit:
    """One request as the provider saw it; the moments are of time.monotonic()."""

    provider: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    arrived_at: float
    bytes_sent: int = 0
    ended_at: float | None = None  # the script was played to its end
    client_closed_at: float | None = None  # before the script's end

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeServer:
    """Several providers behind one port, told apart by the first part of the path; each plays its own script."""

    port: int = 0
    hits: defaultdict[str, list[Hit]] = field(default_factory=lambda: defaultdict(list))
    connections: int = 0
    _scripts: dict[str, tuple[Script, ...]] = field(default_factory=dict)

    def play(self, provider: str, *scripts: Script) -> None:
        """Let *provider* play the first script at the first request and so on, the last one from then on."""
        self._scripts[provider] = scripts
        self.hits.pop(provider, None)

    def url(self, provider: str, dialect: str = "openai") -> str:
        """The address of *provider* for a target's settings."""
        return f"http://127.0.0.1:{self.port}/{provider}{BASES[dialect]}"

    def script(self, provider: str) -> Script:
        """What the request that was recorded last is answered with."""
        scripts = self._scripts.get(provider) or (good(),)
        return scripts[min(len(self.hits[provider]), len(scripts)) - 1]


@asynccontextmanager
async def open_fake() -> AsyncIterator[FakeServer]:
    """A running fake; all its connections end with the block."""
    fake = FakeServer()
    tasks: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Protocol(fake, tasks), "127.0.0.1", 0, backlog=512)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def refusing_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


class _Protocol(asyncio.StreamReaderProtocol):
    """Notes the moment at which the client went away, also while nobody reads."""

    def __init__(self, fake: FakeServer, tasks: set[asyncio.Task[None]]) -> None:
        self.gone = asyncio.Event()
        self.gone_at = 0.0
        self._fake = fake
        self._tasks = tasks
        super().__init__(asyncio.StreamReader(), self._begin)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._fake.connections += 1
        task = asyncio.get_running_loop().create_task(_serve(self._fake, self, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def eof_received(self) -> bool | None:
        self._leave()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def _leave(self) -> None:
        self.gone_at = self.gone_at or time.monotonic()
        self.gone.set()


async def _serve(
    fake: FakeServer, protocol: _Protocol, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection until a script or the client ends it."""
    try:
        while hit := await _request(reader):
            fake.hits[hit.provider].append(hit)
            if not await _play_to(protocol, _play(fake.script(hit.provider), hit, writer), hit):
                return
    finally:
        writer.close()


async def _play_to(protocol: _Protocol, play: Coroutine[Any, Any, bool], hit: Hit) -> bool:
    """Play until the client leaves; true when the connection may be used again."""
    playing = asyncio.ensure_future(play)
    leaving = asyncio.ensure_future(protocol.gone.wait())
    try:
        await asyncio.wait({playing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done() or isinstance(playing.exception(), ConnectionError):
            hit.client_closed_at = protocol.gone_at
    finally:
        playing.cancel()
        leaving.cancel()
        [kept, _] = await asyncio.gather(playing, leaving, return_exceptions=True)
    return kept is True


async def _request(reader: asyncio.StreamReader) -> Hit | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    path = first.split(" ")[1]
    return Hit(path.split("/")[1], path, headers, body, time.monotonic())


async def _play(script: Script, hit: Hit, writer: asyncio.StreamWriter) -> bool:
    """Play the script; true when the connection may be used again."""
    bare = hit.path.partition("?")[0]
    dialect = next(dialect for end, dialect in ROUTES.items() if bare.endswith(end))
    response = _Response(RENDERINGS[dialect](dialect), hit, writer)
    for step in script:
        if step.kind in {"cut", "rst"}:
            await response.end_badly(step.kind)
            return False
        if step.kind == "eof":
            break
        await response.do(step)
    await response.end()
    hit.ended_at = time.monotonic()
    return True


class _Response:
    def __init__(self, rendering: Rendering, hit: Hit, writer: asyncio.StreamWriter) -> None:
        self._rendering = rendering
        self._hit = hit
        self._writer = writer
        self._begun = False
        self._chunked = False

    async def do(self, step: Step) -> None:
        if step.kind == "stall":
            await asyncio.sleep(step.seconds)
        elif step.kind == "status":
            await self._whole(step.code, step.body, step.headers)
        elif step.kind == "fails":
            code, content_type, body = self._rendering.failed(step.text)
            await self._whole(code, body, {"Content-Type": content_type, **step.headers})
        elif step.kind == "head":
            await self._head(KINDS.get(step.text, step.text) or self._rendering.content_type, step.headers)
        else:
            await self._frames(step)

    async def _frames(self, step: Step) -> None:
        if not self._begun:
            await self._head(self._rendering.content_type, {})
        for pause_s, frame in self._rendering.render(step):
            if pause_s:
                await asyncio.sleep(pause_s)
            if frame:
                await self._send(b"%x\r\n%b\r\n" % (len(frame), frame))

    async def end(self) -> None:
        if not self._begun:
            await self._head(self._rendering.content_type, {})
        if self._chunked:
            await self._send(LAST_CHUNK)

    async def end_badly(self, kind: str) -> None:
        await self._writer.drain()
        if kind == "rst":
            at_once = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._writer.transport.abort()

    async def _head(self, content_type: str, headers: Mapping[str, str]) -> None:
        self._chunked = True
        await self._lines(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked", **headers})

    async def _whole(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
        await self._lines(code, {"Content-Length": str(len(body)), **headers})
        await self._send(body)

    async def _lines(self, code: int, headers: Mapping[str, str]) -> None:
        self._begun = True
        lines = [f"HTTP/1.1 {code} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        await self._send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def _send(self, content: bytes) -> None:
        self._writer.write(content)
        self._hit.bytes_sent += len(content)
        await self._writer.drain()
