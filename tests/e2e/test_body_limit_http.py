from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import MARKDOWN, Caller, Service, document

pytestmark = pytest.mark.usefixtures("quiet_log")

MB = 1024 * 1024
LIMIT = 20 * MB  # the default of RAG_MAX_BODY_BYTES
ROUTES = pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/search"), ("POST", "/v1/query"), ("PUT", "/v1/documents/a.md")]
)


def head(caller: Caller, method: str, path: str, length: str) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\n"
        f"Content-Type: application/json\r\n{length}\r\n\r\n"
    ).encode()


async def answer_to(service: tuple[Service, str], *parts: bytes) -> str:
    """What the service says before it closes the connection."""
    address = urlsplit(service[0].url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    await writer.wait_closed()
    return answer


def assert_too_large(answer: str) -> None:
    headers, _, body = answer.partition("\r\n\r\n")
    assert headers.startswith("HTTP/1.1 413 ")
    assert "content-type: application/problem+json" in headers.lower()
    assert "connection: close" in headers.lower()
    assert json.loads(body)["code"] == "too_large"
    assert json.loads(body)["request_id"] in headers


@ROUTES
async def test_a_body_that_declares_too_much_is_refused_before_it_is_sent(
    service: tuple[Service, str], acme: Caller, method: str, path: str
) -> None:
    assert_too_large(await answer_to(service, head(acme, method, path, f"Content-Length: {50 * MB}")))


@ROUTES
async def test_a_body_without_a_length_is_refused_at_the_first_byte_over_the_limit(
    service: tuple[Service, str], acme: Caller, method: str, path: str
) -> None:
    chunk = b"%x\r\n%s\r\n" % (MB, b" " * MB)

    answer = await answer_to(
        service, head(acme, method, path, "Transfer-Encoding: chunked"), *[chunk] * (LIMIT // MB), b"1\r\n \r\n"
    )

    assert_too_large(answer)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_caller_that_sends_everything_first_still_reads_the_refusal(acme: Caller, declared: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b" " * MB

    body = b" " * (50 * MB) if declared else pieces()

    assert (await acme.send("PUT", document("a.md"), content=body, headers=MARKDOWN)).status_code == 413


async def test_a_large_document_within_the_limit_is_taken(newcomer: Caller) -> None:
    content = b"# A\n\n" + b"\0" * 15 * MB  # NUL: its job ends at once

    assert (await newcomer.send("PUT", document("a.md"), content=content, headers=MARKDOWN)).status_code == 202
