"""`POST /v1/chat/completions` and `GET /v1/models`: answers from the tenant's documents for any OpenAI client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from fastapi import APIRouter, Depends, Request
from sse_starlette import ServerSentEvent
from starlette.responses import JSONResponse, Response

from rag.api.auth import Reader, ServicesDep, json_only
from rag.api.completion_bodies import MODEL, Completion, CompletionBody, answer_text, grounds
from rag.api.feed import CALLER_LEFT, Asked, Item
from rag.api.limits import InTime
from rag.api.problems import openai_error
from rag.api.schemas import sources
from rag.calls import Answer
from rag.errors import NotFound
from rag.telemetry import request_id

router = APIRouter(prefix="/v1", tags=["openai"], route_class=InTime)
BEGUN = 2  # items before the status line, the sources and the first words: what fails before them has its own status


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
    """The cited answer to the last message, whole or streamed.

    A stream's status is sent with its first words, so that what fails before them has its own; after them a failure is
    a last event with an `error`, and no `[DONE]`.
    """
    _known(body.model)
    asked = Asked(
        services, who, body.question(who, services.settings), body.limit, body.talk(services.settings.data_classes)
    )
    shape = Completion(f"chatcmpl-{request_id.get()}", int(datetime.now(UTC).timestamp()))
    if body.stream:
        return await asked.stream(request, BEGUN, shown=partial(_events, body, shape), failed=_error)
    answer = await asked.answer(request)
    return Response(status_code=CALLER_LEFT) if answer is None else JSONResponse(shape.whole(answer))


def _events(body: CompletionBody, shape: Completion, item: Item) -> Iterator[ServerSentEvent]:
    for data in _said(body, shape, item):
        yield ServerSentEvent(json.dumps(data))
    if isinstance(item, Answer):
        yield ServerSentEvent("[DONE]")


def _said(body: CompletionBody, shape: Completion, item: Item) -> Iterator[dict[str, object]]:
    """The role with the sources, then text, then what the text rests on, and what it took."""
    if isinstance(item, str):
        yield shape.chunk({"content": item})
    elif isinstance(item, Answer):
        if item.status == "no_evidence":
            yield shape.chunk({"content": answer_text(item)})
        yield shape.chunk(grounds(item), item.finish)
        if body.wants_usage:
            yield shape.used(item)
    else:
        listed = [source.model_dump() for source in sources(item)]
        yield shape.chunk({"role": "assistant", "content": "", "sources": listed})


def _error(problem: dict[str, object]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(openai_error(problem)))


def _known(model: str) -> None:
    if model != MODEL:
        raise NotFound(f"model: there is none of that name; this service is {MODEL!r}")


def _model() -> dict[str, object]:
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}
