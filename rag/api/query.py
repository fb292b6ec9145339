"""`POST /v1/query`: the answer whole, or as a stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from fastapi import APIRouter, Depends
from sse_starlette import EventSourceResponse, ServerSentEvent

from rag.api.auth import Reader, ServicesDep, json_only
from rag.api.limits import within
from rag.api.problems import problem_of
from rag.api.schemas import QueryBody, QueryResult, query_result, sources
from rag.calls import Answer
from rag.errors import RagError
from rag.telemetry import log, request_id
from rag.values import Deadline, Passage, Principal, Question
from rag.wiring import Services

router = APIRouter(prefix="/v1", tags=["query"])
PING_S = 15  # proxies drop connections that are silent for longer

Events = AsyncGenerator[Sequence[Passage] | str | Answer, None]


@router.post("/query", response_model=QueryResult, dependencies=[Depends(json_only)])
async def post_query(body: QueryBody, who: Reader, services: ServicesDep) -> QueryResult | EventSourceResponse:
    """The cited answer to a question, or `no_evidence`; with `stream`, the events sources, delta, done, error."""
    question = body.question(who, services.settings)
    if body.stream:
        return await _streamed(body, question, who, services=services)
    timeout_s = services.settings.request_timeout_s
    async with within(timeout_s):
        answer = await services.answerer.answer(
            who, question, max_tokens=body.max_tokens, deadline=Deadline.after(timeout_s)
        )
    count_answer(services, answer)
    return query_result(answer, request_id.get())


async def _streamed(body: QueryBody, question: Question, who: Principal, *, services: Services) -> EventSourceResponse:
    timeout_s = services.settings.request_timeout_s
    deadline = Deadline.after(timeout_s)
    events = services.answerer.stream(who, question, max_tokens=body.max_tokens, deadline=deadline)
    # the search is over before the status line, so its errors still have their own status
    async with within(timeout_s):
        first = await anext(events)
    return EventSourceResponse(_events(first, events, services=services, deadline=deadline), ping=PING_S)


async def _events(
    first: Sequence[Passage] | str | Answer, rest: Events, *, services: Services, deadline: Deadline
) -> AsyncIterator[ServerSentEvent]:
    try:
        async with aclosing(rest):  # whoever leaves, even before the first word, ends the call of the model
            yield _event(first, services)
            while True:
                async with within(deadline.remaining_s()):
                    item = await anext(rest, None)
                if item is None:
                    return
                yield _event(item, services)
    except RagError as exc:
        log.error("stream failed", code=exc.code, detail=exc.detail)
        yield ServerSentEvent(json.dumps(problem_of(exc)), event="error")


def _event(item: Sequence[Passage] | str | Answer, services: Services) -> ServerSentEvent:
    if isinstance(item, Answer):
        count_answer(services, item)
        return ServerSentEvent(query_result(item, request_id.get()).model_dump_json(), event="done")
    if isinstance(item, str):
        return ServerSentEvent(json.dumps({"text": item}), event="delta")
    listed = [source.model_dump() for source in sources(item)]
    return ServerSentEvent(json.dumps({"sources": listed, "request_id": request_id.get()}), event="sources")


def count_answer(services: Services, answer: Answer) -> None:
    """Count it in the metrics, whichever route gave it."""
    services.metrics.answers.labels(answer.status).inc()
    services.metrics.cached.labels(answer.cache).inc()
    services.metrics.observe_stages(answer.retrieval.timings_ms)
