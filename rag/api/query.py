"""`POST /v1/query`: the answer whole, or as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fastapi import APIRouter, Depends, Request
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from rag.api.auth import Reader, ServicesDep, json_only
from rag.api.feed import CALLER_LEFT, Asked, Item
from rag.api.limits import InTime
from rag.api.schemas import QueryBody, QueryResult, query_result, sources
from rag.calls import Answer
from rag.telemetry import request_id

router = APIRouter(prefix="/v1", tags=["query"], route_class=InTime)
BEGUN = 1  # items before the status line: the sources are sent as soon as the call of the model is let in


@router.post("/query", response_model=QueryResult, dependencies=[Depends(json_only)])
async def post_query(body: QueryBody, request: Request, who: Reader, services: ServicesDep) -> QueryResult | Response:
    """The cited answer to a question, or `no_evidence`; with `stream`, the events sources, delta, done, error.

    A stream has the status 200 as soon as its sources are sent, which is before a chat model is asked. What fails from
    then on is an `error` event, a problem with the `status` that it would have had; nothing follows it, and no `done`.
    What fails before, such as a wrong request, an exhausted budget or a full queue, is a problem with its own status.
    """
    asked = Asked(services, who, body.question(who, services.settings), body.max_tokens)
    if body.stream:
        return await asked.stream(request, BEGUN, shown=_events, failed=_error)
    answer = await asked.answer(request)
    return Response(status_code=CALLER_LEFT) if answer is None else query_result(answer, request_id.get())


def _events(item: Item) -> Iterator[ServerSentEvent]:
    if isinstance(item, Answer):
        # in ASCII like the others: U+2028 and U+0085 of a document end a line for some readers of streams
        whole = query_result(item, request_id.get()).model_dump(mode="json")
        yield ServerSentEvent(json.dumps(whole), event="done")
    elif isinstance(item, str):
        yield ServerSentEvent(json.dumps({"text": item}), event="delta")
    else:
        listed = [source.model_dump() for source in sources(item)]
        yield ServerSentEvent(json.dumps({"sources": listed, "request_id": request_id.get()}), event="sources")


def _error(problem: dict[str, object]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(problem), event="error")
