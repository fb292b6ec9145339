"""One target over the wire: a request goes out, and what comes back is told as events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.request import getproxies

import httpx2
from pydantic import SecretStr

from rag.calls import ChatRequest
from rag.errors import SetupError
from rag.llm.complaints import Complained, complaint_in, complaint_of, failure_of
from rag.llm.connections import Connections
from rag.llm.dialects import anthropic, gemini, ollama, openai
from rag.llm.dialects.asking import Asked
from rag.llm.dialects.decoding import Decoder
from rag.llm.events import Event
from rag.llm.failures import Failure, Reason
from rag.llm.sse import Body, Frame, json_lines, parse, server_sent_events
from rag.settings import Quirk, Target

USAGE_GRACE_S = 1.0  # between the finish and the usage
CLOSING_GRACE_S = 0.05  # for the end of a body of which nothing more is expected: then its connection can be kept
ERROR_BODY_S = 2.0
ERROR_BODY_BYTES = 64 * 1024
IDLE_CONNECTIONS = 100

Frames = Callable[[AsyncIterable[bytes], Body], AsyncGenerator[Frame, None]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to ask, how the body is cut into frames, the content types it comes as, and what the frames say."""

    ask: Callable[[Target, ChatRequest, str], Asked]
    frames: Frames
    content_types: frozenset[str]
    decoder: Callable[[frozenset[Quirk]], Decoder]


SSE = frozenset({"text/event-stream", ""})
LINES = frozenset({"application/x-ndjson", "application/json", ""})
DIALECTS = {
    "openai": Dialect(openai.ask, server_sent_events, SSE, openai.OpenAIDecoder),
    "anthropic": Dialect(anthropic.ask, server_sent_events, SSE, anthropic.AnthropicDecoder),
    "gemini": Dialect(gemini.ask, server_sent_events, SSE, gemini.GeminiDecoder),
    "ollama": Dialect(ollama.ask, json_lines, LINES, ollama.OllamaDecoder),
}


@asynccontextmanager
async def open_http() -> AsyncIterator[httpx2.AsyncClient]:
    """The one client for all providers; how many calls run at once is decided before they come here."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS)
    # only httpx2's own transport knows the way through a proxy
    transport = None if getproxies().keys() - {"no"} else Connections()
    async with httpx2.AsyncClient(transport=transport, limits=limits) as http:
        yield http


class Endpoint:
    """One target. Tries nothing twice and watches no clock but that of connecting."""

    def __init__(self, target: Target, key: SecretStr | None, http: httpx2.AsyncClient) -> None:
        """Ask *target* with *key* through *http*.

        Raises SetupError when no header can carry the key.
        """
        self.target = target
        self._key = key.get_secret_value() if key else ""
        self._http = http
        self._dialect = DIALECTS[target.dialect]
        # not as long as the silence that would be a fault of the target
        self._usage_grace_s = min(USAGE_GRACE_S, target.idle_timeout_s / 2)
        self._timeout = httpx2.Timeout(None, connect=target.connect_timeout_s)
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise SetupError(f"RAG_CHAT_KEYS: the key of {target.name} has characters that no header carries")

    async def events(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """What the provider says, End last; to close or cancel it closes the connection at once.

        Raises Failure.
        """
        decoder = self._dialect.decoder(self.target.quirks)
        status: int | None = None
        try:
            async with self._sent(request) as response:
                status = response.status_code
                if not response.is_success or not self._is_stream(response):
                    raise await self._refusal(response, request)
                async with aclosing(self._read(response, decoder)) as events:
                    async for event in events:
                        yield event
        except Complained as exc:
            said, usage = exc.complaint, decoder.usage_said
            raise failure_of(said, status or 0, request=request, key=self._key, usage=usage) from None
        except Failure as exc:
            exc.usage = decoder.usage_said
            exc.status = exc.status or status
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise Failure(_reason(exc, status), type(exc).__name__, usage=decoder.usage_said, status=status) from exc

    def _sent(self, request: ChatRequest) -> AbstractAsyncContextManager[httpx2.Response]:
        asked = self._dialect.ask(self.target, request, self._key)
        headers = {
            "Content-Type": "application/json",
            "Accept": min(self._dialect.content_types - {""}),
            "Accept-Encoding": "identity",  # what is compressed comes in lumps
            **asked.headers,
        }
        content = json.dumps(asked.body, ensure_ascii=False).encode(errors="replace")  # half a character goes as "?"
        return self._http.stream("POST", asked.url, content=content, headers=headers, timeout=self._timeout)

    def _is_stream(self, response: httpx2.Response) -> bool:
        content_type = response.headers.get("Content-Type", "").partition(";")[0]
        return content_type.strip().lower() in self._dialect.content_types

    async def _read(self, response: httpx2.Response, decoder: Decoder) -> AsyncGenerator[Event, None]:
        body, patience = Body(), _Patience(self._usage_grace_s)
        try:
            async with aclosing(self._dialect.frames(response.aiter_bytes(), body)) as frames:
                while frame := await patience.next(frames, decoder):
                    for event in decoder.frame(frame):
                        yield event
        except httpx2.TransportError:
            if not decoder.finished:
                raise
        if not decoder.finished:
            _look_closer(body)
        for event in decoder.ended():
            yield event

    async def _refusal(self, response: httpx2.Response, request: ChatRequest) -> Failure:
        body = parse(await _short_body(response))
        complaint = complaint_in(body) if response.is_success else complaint_of(body)
        if complaint is None:
            return Failure("malformed", "a response that is no stream", status=response.status_code)
        return failure_of(complaint, response.status_code, headers=response.headers, request=request, key=self._key)


class _Patience:
    """How long the next frame is waited for: no limit before the answer is whole, and hardly any after it."""

    def __init__(self, usage_grace_s: float) -> None:
        self._usage_grace_s = usage_grace_s
        self._until = math.inf

    async def next(self, frames: AsyncGenerator[Frame, None], decoder: Decoder) -> Frame | None:
        """The next frame; None when there is none, or it is not worth waiting for."""
        if not decoder.finished:
            return await anext(frames, None)
        grace_s = CLOSING_GRACE_S if decoder.complete else self._usage_grace_s
        self._until = min(self._until, asyncio.get_running_loop().time() + grace_s)
        try:
            async with asyncio.timeout_at(self._until):
                return await anext(frames, None)
        except TimeoutError:
            return None


def _look_closer(body: Body) -> None:
    """Raises what a body that ended too early tells beside its frames."""
    complaint = complaint_in(body.error_outside())
    if complaint:
        raise Complained(complaint)
    if body.unterminated:
        raise Failure("incomplete", "the stream ended inside a frame")


async def _short_body(response: httpx2.Response) -> bytes:
    """The first of an error's body, as far as it comes soon: the status tells most."""
    content = bytearray()
    with suppress(httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_S):
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) >= ERROR_BODY_BYTES:
                    break
    return bytes(content)


def _reason(error: httpx2.HTTPError | httpx2.InvalidURL, status: int | None) -> Reason:
    """What a failure of HTTP itself means: before the request was sent, before a status came, and after."""
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL):
        return "config"
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return "connect"
    if status is None:
        return "server_error"  # it may have read the prompt, and counted it
    return "malformed" if isinstance(error, httpx2.DecodingError) else "incomplete"
