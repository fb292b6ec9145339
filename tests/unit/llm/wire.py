"""A provider whose server is a list of byte strings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing

import httpx2
from pydantic import SecretStr

from rag.calls import ChatRequest, Message, Usage
from rag.llm.endpoint import Endpoint
from rag.llm.events import End, Event, Text
from rag.llm.failures import Failure
from rag.settings import Target
from tests.integration.llm.fake_rendering import RENDERINGS
from tests.integration.llm.fake_steps import Script

KEY = "sk-test-1234567890abcdef"
QUESTION = "Wie lange dauert eine Erstattung nach Auftrag 4711?"
MESSAGES = (Message("system", "Answer from the sources."), Message("user", QUESTION))
REQUEST = ChatRequest("answer", QUESTION, (), MESSAGES, max_tokens=300)
DIALECTS = ("openai", "anthropic", "gemini", "ollama")
URLS = {"openai": "https://p/v1", "anthropic": "https://p", "gemini": "https://p", "ollama": "http://p"}

Respond = Callable[[httpx2.Request], httpx2.Response]


def target(dialect: str, **more: object) -> Target:
    return Target.model_validate({"name": "p1", "dialect": dialect, "url": URLS[dialect], "model": "m", **more})


def endpoint(dialect: str, respond: Respond, key: str = KEY, **more: object) -> Endpoint:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
    return Endpoint(target(dialect, **more), SecretStr(key), http)


def rendered(dialect: str, script: Script) -> bytes:
    """The whole body of a script."""
    rendering = RENDERINGS[dialect](dialect)
    frames = (frame for step in script if step.kind != "eof" for _, frame in rendering.render(step))
    return b"".join(frames)


async def told(
    chunks: Iterable[bytes],
    dialect: str = "openai",
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request: ChatRequest = REQUEST,
    **more: object,
) -> list[Event]:
    """The events of a response that comes in *chunks*."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    given = {"Content-Type": RENDERINGS[dialect].content_type, **(headers or {})}
    asked = endpoint(dialect, lambda _: httpx2.Response(status, headers=given, content=body()), **more)
    async with aclosing(asked.events(request)) as events:
        return [event async for event in events]


async def failing(chunks: Iterable[bytes], dialect: str = "openai", **more: object) -> Failure:
    """The failure such a response is."""
    try:
        events = await told(chunks, dialect, **more)
    except Failure as failure:
        return failure
    raise AssertionError(f"no failure but {events[-1]}")


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def usage_of(events: Sequence[Event]) -> Usage:
    assert isinstance(events[-1], End)
    return events[-1].usage
