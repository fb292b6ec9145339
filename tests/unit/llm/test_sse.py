"""Bodies of streams, each cut at every byte."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.llm.failures import Failure
from rag.llm.sse import MAX_EVENT_BYTES, Body, Frame, json_lines, server_sent_events

Frames = Callable[[AsyncIterable[bytes], Body], AsyncGenerator[Frame, None]]


async def read(chunks: Iterable[bytes], frames: Frames = server_sent_events) -> tuple[list[str], Body]:
    """The data of all frames that have any, and what is known of the body."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    known = Body()
    return [frame.data async for frame in frames(body(), known) if frame.data], known


@pytest.mark.parametrize(
    ("body", "data"),
    [
        ('data: {"t":"a\u2028b\u2029c\u0085d"}\n\n'.encode(), ['{"t":"a\u2028b\u2029c\u0085d"}']),
        ("data: 🙂é\n\n".encode(), ["🙂é"]),
        (b"data: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: 4\r\n\ndata: 5\n\r", ["1", "2", "3", "4", "5"]),
        (b"data: 1\r\r", ["1"]),
        (b"data:x\ndata: y\ndata:  z\n\n", ["x\ny\n z"]),
        (b"id: 7\ndata: 1\n\n: comment\n\ndata: 2\n\n", ["1", "2"]),
        (b"retry: 10\n\ndata: 1\n\n", ["1"]),
        (b"event: ping\n\ndata: 1\n\n", ["1"]),
        (b"data\n\ndata:\n\ndata: 1\n\n", ["1"]),
        (b"\xef\xbb\xbfdata: 1\n\ndata: \xef\xbb\xbf2\n\n", ["1", "\ufeff2"]),
        (b"data: a\xffb\n\ndata: 2\n\n", ["a\ufffdb", "2"]),
        (b"data: 1\n\nunknown: x\nbare\n\n\n\ndata: 2\n\n", ["1", "2"]),
        (b"", []),
    ],
)
async def test_events_are_read_wherever_the_body_is_cut(body: bytes, data: list[str]) -> None:
    for at in range(len(body) + 1):
        found, known = await read([body[:at], body[at:]])
        assert found == data
        assert not known.unterminated
    assert (await read(bytes([byte]) for byte in body))[0] == data


@pytest.mark.parametrize(
    "tail", [b"data: 2", b"data: 2\n", b"data: 2\r", b"data: 2\r\n", b'data: {"a', b"data: \xf0\x9f"]
)
async def test_an_event_without_its_end_is_dropped_and_noticed(tail: bytes) -> None:
    body = b"data: 1\n\n" + tail

    for at in range(len(body) + 1):
        found, known = await read([body[:at], body[at:]])
        assert found == ["1"]
        assert known.unterminated


async def test_comments_and_empty_events_show_life() -> None:
    chunks = [b": PROCESSING\n\n", b"event: ping\n\n", b"data: 1\n\n"]

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    frames = [frame async for frame in server_sent_events(body(), Body())]

    assert [frame.data for frame in frames] == ["", "", "1"]


@pytest.mark.parametrize("frames", [server_sent_events, json_lines])
async def test_an_endless_frame_is_refused_before_it_fills_the_memory(frames: Frames) -> None:
    sent = 0

    def endless() -> Iterable[bytes]:
        nonlocal sent
        yield b"data: "
        while sent < 5 * MAX_EVENT_BYTES:
            sent += 65_536
            yield b"x" * 65_536

    with pytest.raises(Failure) as caught:
        await read(endless(), frames)

    assert caught.value.reason == "malformed"
    assert sent <= MAX_EVENT_BYTES + 65_536


@pytest.mark.parametrize(
    "body",
    [
        b'data: 1\n\n{\n  "error": {\n    "code": 503\n  }\n}\n',
        b'data: 1\r\n\r\n{\r\n  "error": {\r\n    "code": 503\r\n  }\r\n}',
        b'data: 1\n\n{"error": {"code": 503}}\n\n',
        b'data: 1\n\n,\n{"other": 1} {"error": {"code": 503}}',
        b'data: 1\n\n[{"error": {"code": 503}}]',
    ],
)
async def test_an_error_between_the_events_is_found(body: bytes) -> None:
    for at in range(len(body) + 1):
        _, known = await read([body[:at], body[at:]])
        assert known.error_outside() == {"error": {"code": 503}}


@pytest.mark.parametrize(
    "body", [b'data: {"error": 1}\n\n', b'data: 1\n\n{"other": 1}', b'data: 1\n\n{"error": {', b""]
)
async def test_what_is_no_error_between_the_events_is_none(body: bytes) -> None:
    _, known = await read([body])

    assert known.error_outside() is None


async def test_an_error_after_a_long_stream_is_found_without_keeping_the_stream() -> None:
    filler = b"data: " + b"x" * 1000 + b"\n\n"

    _, known = await read([*[filler] * 1000, b'{"error": "late"}'])

    assert known.error_outside() == {"error": "late"}
    assert sum(map(len, known._kept)) < 70_000


@pytest.mark.parametrize(
    ("body", "data", "unterminated"),
    [
        (b'{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}'], False),
        (b'{"a":1}\r\n\r\n\n{"b":2}', ['{"a":1}', '{"b":2}'], False),
        (b'{"a":1}\n{"b"', ['{"a":1}'], True),
        ('{"a":"\u2028🙂"}\n'.encode(), ['{"a":"\u2028🙂"}'], False),
        (b"", [], False),
    ],
)
async def test_lines_are_read_wherever_the_body_is_cut(body: bytes, data: list[str], unterminated: bool) -> None:
    for at in range(len(body) + 1):
        found, known = await read([body[:at], body[at:]], json_lines)
        assert found == data
        assert known.unterminated is unterminated


@given(st.lists(st.binary(max_size=40), max_size=6))
async def test_no_bytes_break_the_reading(chunks: list[bytes]) -> None:
    for frames in (server_sent_events, json_lines):
        _, known = await read(chunks, frames)
        known.error_outside()
        assert known.ended
