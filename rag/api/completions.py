"""`POST /v1/chat/completions` and `GET /v1/models`: answers from the tenant's documents for any OpenAI client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Depends, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from rag.api.auth import Reader, ServicesDep, json_only
from rag.api.completion_bodies import MODEL, Completion, CompletionBody, answer_text, grounds
from rag.api.feed import Feed, unless_left
from rag.api.limits import within
from rag.api.problems import openai_error, problem_of
from rag.api.query import PING_S, count_answer
from rag.api.schemas import sources
from rag.calls import Answer
from rag.errors import NotFound, RagError
from rag.telemetry import log, request_id
from rag.values import Deadline, Passage, Principal, Question
from rag.wiring import Services

router = APIRouter(prefix="/v1", tags=["openai"])
CALLER_LEFT = 499  # nobody reads it but the log

Item = Sequence[Passage] | str | Answer


@router.get("/models")
async def list_models(_: Reader) -> dict[str, object]:
    """The one model there is: this service."""
    return {"object": "list", "data": [_model()]}


@router.get("/models/{name}")
async def get_model(name: str, _: Reader) -> dict[str, object]:
    """The same by its name."""
    _known(name)
    return _model()


@router.post("/chat/completions", response_model=None, dependencies=[Depends(json_only)])
async def post_completion(body: CompletionBody, request: Request, who: Reader, services: ServicesDep) -> Response:
    """The cited answer to the last message, whole or streamed."""
    _known(body.model)
    question = body.question(who, services.settings)
    shape = Completion(f"chatcmpl-{request_id.get()}", int(datetime.now(UTC).timestamp()))
    if body.stream:
        return await _streamed(body, question, who, request=request, services=services, shape=shape)
    answer = await unless_left(request, _answered(body, question, who, services=services))
    if answer is None:
        return Response(status_code=CALLER_LEFT)
    count_answer(services, answer)
    return JSONResponse(shape.whole(answer))


async def _answered(body: CompletionBody, question: Question, who: Principal, *, services: Services) -> Answer:
    timeout_s = services.settings.request_timeout_s
    async with within(timeout_s):
        return await services.answerer.answer(
            who, question, max_tokens=body.limit, deadline=Deadline.after(timeout_s), talk=body.talk()
        )


async def _streamed(
    body: CompletionBody,
    question: Question,
    who: Principal,
    *,
    request: Request,
    services: Services,
    shape: Completion,
) -> Response:
    timeout_s = services.settings.request_timeout_s
    deadline = Deadline.after(timeout_s)
    events = services.answerer.stream(who, question, max_tokens=body.limit, deadline=deadline, talk=body.talk())
    feed: Feed[Item] = Feed(events, timeout_s)
    first = None
    try:
        # the first words come before the status line, so what fails before them has its own status
        first = await unless_left(request, _first(feed))
    finally:
        if first is None:
            await feed.close()
    if first is None:
        return Response(status_code=CALLER_LEFT)
    return _Stream(_events(first, feed, body=body, services=services, shape=shape), feed)


async def _first(feed: Feed[Item]) -> list[Item]:
    """The sources, and the first words or the whole answer."""
    return [item for item in (await feed.next(), await feed.next()) if item is not None]


class _Stream(EventSourceResponse):
    """Events, after which, or without which, their feed is closed."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], feed: Feed[Item]) -> None:
        super().__init__(events, ping=PING_S)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._feed.close()


async def _events(
    begun: Sequence[Item], feed: Feed[Item], *, body: CompletionBody, services: Services, shape: Completion
) -> AsyncIterator[ServerSentEvent]:
    try:
        async for item in _items(begun, feed):
            for data in _said(item, body=body, services=services, shape=shape):
                yield ServerSentEvent(json.dumps(data))
        yield ServerSentEvent("[DONE]")
    except RagError as exc:
        log.error("stream failed", code=exc.code, detail=exc.detail)
        yield ServerSentEvent(json.dumps(openai_error(problem_of(exc))))


async def _items(begun: Sequence[Item], feed: Feed[Item]) -> AsyncIterator[Item]:
    for item in begun:
        yield item
    while (more := await feed.next()) is not None:
        yield more


def _said(item: Item, *, body: CompletionBody, services: Services, shape: Completion) -> Iterator[dict[str, object]]:
    """The role with the sources, then text, then what the text rests on, and what it took."""
    if isinstance(item, str):
        yield shape.chunk({"content": item})
    elif isinstance(item, Answer):
        count_answer(services, item)
        if item.status == "no_evidence":
            yield shape.chunk({"content": answer_text(item)})
        yield shape.chunk(grounds(item), item.finish)
        if body.wants_usage:
            yield shape.used(item)
    else:
        listed = [source.model_dump() for source in sources(item)]
        yield shape.chunk({"role": "assistant", "content": "", "sources": listed})


def _known(model: str) -> None:
    if model != MODEL:
        raise NotFound(f"model: there is none of that name; this service is {MODEL!r}")


def _model() -> dict[str, object]:
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}
