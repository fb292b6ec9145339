from __future__ import annotations

import asyncio
import socket

import pytest

from rag.errors import SetupError
from rag.serving import _listen


async def test_connections_do_not_wait_to_fill_a_packet() -> None:
    accepted: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with _listen("127.0.0.1", 0) as listening:
        async with await asyncio.start_server(answer, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()

    assert accepted == [1]


@pytest.mark.parametrize("host", ["300.1.1.1", "203.0.113.1"])
def test_an_address_that_is_not_here_is_one_clear_error(host: str) -> None:
    with pytest.raises(SetupError, match="RAG_HOST, RAG_PORT or --port"):
        _listen(host, 0)


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with _listen("127.0.0.1", 0) as first, pytest.raises(SetupError, match="Address already in use"):
        _listen("127.0.0.1", first.getsockname()[1])
