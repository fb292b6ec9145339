"""The body of a stream as frames: server-sent events, or a JSON object a line."""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx2

from rag.llm.failures import Failure

MAX_EVENT_BYTES = 1024 * 1024  # a frame is a few words; this is no frame
KEPT_BYTES = 64 * 1024  # of the body's end, in which an error may stand outside of all events
FIELDS = ("data", "event", "id", "retry", "")
BLANK_LINES = (b"\n\n", b"\r\n\r\n")
SIGN_OF_LIFE = "event: alive\n\n"
NO_REQUEST = httpx2.Request("GET", "http://body")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of the body; without data it only shows that the sender lives."""

    data: str
    name: str = ""


@dataclass(slots=True)
class Body:
    """What is known of a body beside its frames."""

    ended: bool = False
    unterminated: bool = False  # the last frame was cut short
    _kept: deque[bytes] = field(default_factory=deque)
    _size: int = 0

    def keep(self, chunk: bytes) -> None:
        """Remember *chunk* until enough has come after it."""
        self._kept.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._kept[0]) >= KEPT_BYTES:
            self._size -= len(self._kept.popleft())

    @property
    def last_two(self) -> bytes:
        """The last two bytes so far."""
        return b"".join(self._kept)[-2:]

    def error_outside(self) -> object | None:
        """A JSON object with an `error` that stands between the events, as Gemini sends it."""
        text = b"".join(self._kept)[-KEPT_BYTES:].decode(errors="replace")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = "\n".join(line for line in lines if line.partition(":")[0] not in FIELDS)
        return _object_with_error(rest)


async def server_sent_events(chunks: AsyncIterable[bytes], body: Body) -> AsyncGenerator[Frame, None]:
    """Each event as soon as it is whole, and a frame without data for what is none; *body* learns how it ended.

    Always UTF-8, whatever the Content-Type says, and a byte order mark is no part of the first event.
    """
    try:
        async for event in httpx2.EventSource(_Utf8(chunks, body), max_event_size=MAX_EVENT_BYTES):
            if not body.ended:
                yield Frame(event.data, event.event)
            elif event.data and body.last_two not in {b"\r\r", b"\n\r"}:
                body.unterminated = True
            else:
                yield Frame(event.data, event.event)
    except httpx2.SSEError as exc:
        raise Failure("malformed", f"an event of more than {MAX_EVENT_BYTES} bytes") from exc


class _Utf8(httpx2.Response):
    """A body for the library's reader of events, which takes its text from a response."""

    def __init__(self, chunks: AsyncIterable[bytes], body: Body) -> None:
        super().__init__(HTTPStatus.OK, headers={"Content-Type": "text/event-stream"}, request=NO_REQUEST)
        self._chunks = chunks
        self._body = body

    async def aiter_text(self, chunk_size: int | None = None) -> AsyncGenerator[str, None]:  # noqa: ARG002 - theirs
        """The text as it comes, with an empty event after a comment, and an end for an event that has none."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        async for chunk in self._chunks:
            self._body.keep(chunk)
            yield decoder.decode(chunk)
            if chunk.startswith(b":") and chunk.endswith(BLANK_LINES):
                yield SIGN_OF_LIFE
        self._body.ended = True
        yield decoder.decode(b"", final=True) + "\n\n"


async def json_lines(chunks: AsyncIterable[bytes], body: Body) -> AsyncGenerator[Frame, None]:
    """Each line as soon as it is whole; the last may lack its end if it is whole all the same."""
    held = bytearray()
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        held += first
        for start in more:
            yield Frame(held.strip().decode(errors="replace"))
            held = bytearray(start)
        if len(held) > MAX_EVENT_BYTES:
            raise Failure("malformed", f"a line of more than {MAX_EVENT_BYTES} bytes")
    body.ended = True
    rest = held.strip().decode(errors="replace")
    if rest and parse(rest) is None:
        body.unterminated = True
    elif rest:
        yield Frame(rest)


def parse(text: str | bytes) -> object | None:
    """The JSON value, or None where it is none."""
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _object_with_error(text: str) -> object | None:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if "error" in found:
                return found  # type: ignore[no-any-return]
        start = text.find("{", end)
    return None
