"""Our transport against servers that write what a test says, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from rag.llm import connections
from rag.llm.connections import Connections
from rag.llm.endpoint import open_http
from tests.integration.llm.fake_server import refusing_url

pytestmark = pytest.mark.quiet

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = HEAD + b"6\r\nhello \r\n5;ext=1\r\nworld\r\n0\r\nTrailer: x\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello world"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED


class Server:
    """Answers each request of a connection with the next of its answers, in the pieces it was given."""

    def __init__(self, *answers: list[bytes], then_close: bool = False, late: bytes = b"") -> None:
        self.answers = list(answers)
        self.then_close = then_close
        self.late = late
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0)
                self.requests.append(head + await reader.readexactly(length))
                for piece in self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.then_close:
                    break
                if self.late:
                    await asyncio.sleep(0.02)
                    writer.write(self.late)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def asking(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Callable[..., object]]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    base = f"{'https' if tls else 'http'}://localhost:{server.port}" if tls else f"http://127.0.0.1:{server.port}"
    async with listening, httpx2.AsyncClient(transport=Connections(), base_url=base) as http:
        yield http


@pytest.mark.parametrize("answer", [CHUNKED, SIZED, EARLY], ids=["chunked", "sized", "early"])
async def test_a_body_is_read_wherever_its_bytes_are_split(answer: bytes) -> None:
    splits = [[answer[:at], answer[at:]] for at in range(1, len(answer))]
    server = Server(*splits, [bytes([byte]) for byte in answer])
    async with asking(server) as http:
        texts = {(await http.post("/", content=b"{}")).text for _ in range(len(splits) + 1)}

    assert texts == {"hello world"}
    assert server.connections == 1


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    server = Server([TO_THE_END], then_close=True)
    async with asking(server) as http:
        texts = [(await http.get("/")).text for _ in range(2)]

    assert texts == ["hello world"] * 2
    assert server.connections == 2


async def test_what_has_come_is_one_piece() -> None:
    frames = b"".join(b"2\r\nab\r\n" for _ in range(100))
    server = Server([HEAD + frames + b"0\r\n\r\n"])
    async with asking(server) as http, http.stream("GET", "/") as response:
        pieces = [piece async for piece in response.aiter_raw()]

    assert b"".join(pieces) == b"ab" * 100
    assert len(pieces) <= 3


async def test_what_comes_while_a_piece_is_read_is_not_lost() -> None:
    pause = [b""] * 200  # turns of the loop, in which the first piece is read
    server = Server([HEAD + b"6\r\nhello \r\n", *pause, b"5\r\nworld\r\n0\r\n\r\n"], then_close=True)
    async with asking(server) as http, http.stream("GET", "/") as response:
        pieces = []
        async for piece in response.aiter_raw():
            pieces.append(piece)
            await server.closed.wait()
            await asyncio.sleep(0.05)

    assert b"".join(pieces) == b"hello world"


async def test_the_request_goes_out_as_it_was_made() -> None:
    server = Server([SIZED])
    async with asking(server) as http:
        await http.post("/v1/chat?alt=sse", content=b'{"a": 1}', headers={"Authorization": "Bearer k"})

    [request] = server.requests
    assert request.startswith(b"POST /v1/chat?alt=sse HTTP/1.1\r\n")
    assert b"Authorization: Bearer k\r\n" in request
    assert b"Host: 127.0.0.1:%d\r\n" % server.port in request
    assert request.endswith(b'\r\n\r\n{"a": 1}')


@pytest.mark.parametrize("broken", [
    HEAD + b"6\r\nhello \r\n",
    HEAD + b"zz\r\nhello",
    HEAD + b"x" * 2000,
    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\nContent-",
    b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    b"",
])  # fmt: skip
async def test_what_is_no_whole_response_is_a_protocol_error(broken: bytes) -> None:
    async with asking(Server([broken], then_close=True)) as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get("/")


async def test_a_response_that_is_left_early_closes_its_connection() -> None:
    server = Server([CHUNKED[:-10]])
    async with asking(server) as http:
        async with http.stream("GET", "/") as response:
            await anext(response.aiter_raw())
        async with asyncio.timeout(1):
            await server.closed.wait()


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    server = Server([SIZED], then_close=True)
    async with asking(server) as http:
        for _ in range(3):
            assert (await http.get("/")).text == "hello world"
            await asyncio.sleep(0.02)

    assert server.connections == 3


async def test_bytes_behind_a_response_spoil_no_other() -> None:
    server = Server([SIZED + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"], [SIZED])
    async with asking(server) as http:
        texts = [(await http.get("/")).text for _ in range(2)]

    assert texts == ["hello world"] * 2
    assert server.connections == 2


async def test_a_server_that_says_close_is_believed() -> None:
    server = Server([SIZED.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n")])
    async with asking(server) as http:
        await http.get("/")
        await http.get("/")

    assert server.connections == 2


async def test_idle_connections_are_closed_and_at_once_there_may_be_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "EXPIRY_S", 0.2)
    server = Server([SIZED])
    async with asking(server) as http:
        await asyncio.gather(*(http.get("/") for _ in range(120)))
        opened = server.connections
        await http.get("/")
        kept = server.connections - opened
        async with asyncio.timeout(2):
            await server.closed.wait()

    assert (opened, kept) == (120, 0)


async def test_bytes_while_a_connection_is_idle_spoil_no_answer() -> None:
    server = Server([SIZED], late=b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    async with asking(server) as http:
        texts = [((await http.post("/", content=b"{}")).text, await asyncio.sleep(0.05))[0] for _ in range(3)]

    assert texts == ["hello world"] * 3
    assert server.connections == 3


async def test_a_large_body_is_sent_whole() -> None:
    server, body = Server([SIZED]), b"x" * 5_000_000
    async with asking(server) as http:
        await http.post("/", content=body)

    assert server.requests[0].endswith(body)


async def test_a_socket_is_free_at_once_when_the_caller_leaves_a_peer_that_reads_nothing() -> None:
    stuck, ended = asyncio.Event(), asyncio.Event()

    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        stuck.set()
        await ended.wait()
        writer.transport.abort()

    async with asking(Server([SIZED])) as http, await asyncio.start_server(read_nothing, "127.0.0.1", 0) as silent:
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
        sending = asyncio.create_task(http.post(url, content=b"x" * 50_000_000))
        await stuck.wait()
        await asyncio.sleep(0.2)  # until all buffers are full
        opened = len(os.listdir("/dev/fd"))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(0.05)
        left_open = len(os.listdir("/dev/fd"))
        ended.set()

    assert left_open == opened - 1


async def test_a_header_with_a_line_break_does_not_go_out() -> None:
    server = Server([SIZED])
    async with asking(server) as http:
        with pytest.raises(httpx2.LocalProtocolError):
            await http.get("/", headers={"X": "a\r\nEvil: 1"})

    assert server.requests == []


async def test_a_long_header_of_a_response_is_read() -> None:
    long = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 30_000 + SIZED[15:]
    async with asking(Server([long])) as http:
        assert (await http.get("/")).text == "hello world"


async def test_a_compressed_body_is_unpacked_once() -> None:
    packed = gzip.compress(b"hello world")
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
    async with asking(Server([answer])) as http:
        assert (await http.get("/")).text == "hello world"


async def test_a_sender_waits_while_nobody_reads() -> None:
    size = 30_000_000
    server = Server([HEAD, b"%x\r\n" % size, b"x" * size, b"\r\n0\r\n\r\n"])
    largest = 0
    async with asking(server) as http, http.stream("GET", "/") as response:
        await asyncio.sleep(0.1)
        total = 0
        async for piece in response.aiter_raw():
            largest = max(largest, len(piece))
            total += len(piece)

    assert total == size
    assert largest < 1_000_000


async def test_nobody_there_and_no_way_there_are_failures_of_connecting() -> None:
    async with httpx2.AsyncClient(transport=Connections()) as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(refusing_url())
        with pytest.raises(httpx2.ConnectError):
            await http.get("http://no-such-host.invalid")
        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")
        with pytest.raises((httpx2.ConnectTimeout, httpx2.ConnectError)):  # where it is refused, that is quicker
            await http.get("http://192.0.2.1:9", timeout=0.1)


async def test_a_proxy_of_the_environment_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Server([SIZED])
    async with asking(proxy):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        async with open_http() as http:
            text = (await http.get("http://far.invalid/v1")).text

    assert text == "hello world"
    assert proxy.requests[0].startswith(b"GET http://far.invalid/v1 HTTP/1.1\r\n")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "cert"],
        check=True, capture_output=True,
    )  # fmt: skip
    both = folder / "both"
    both.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return both


async def test_tls_is_spoken_and_a_certificate_of_nobody_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server([CHUNKED])

    async with asking(server, context) as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get("/")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with asking(server, context) as http:
        texts = [(await http.get("/")).text for _ in range(2)]

    assert texts == ["hello world"] * 2
    assert len(server.requests) == 2
