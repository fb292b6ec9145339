"""`rag search` and `rag ask`."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

from rag.api.schemas import ANSWER_TOKENS, MAX_TOP_K, SearchBody, query_result, search_result
from rag.calls import Answer
from rag.commands.opened import names, settings, show
from rag.errors import InvalidInput
from rag.store.tenancy import find_tenant
from rag.telemetry import Metrics
from rag.telling import shortened
from rag.values import Deadline, Principal, Question, RerankReason, Retrieval
from rag.wiring import Services, open_services

UNRANKED: dict[RerankReason, str] = {
    "not_asked": "as --no-rerank says",
    "switched_off": "RAG_RERANK_TOP is 0",
    "nothing_found": "nothing was found",
    "busy": "too many questions were before it",
    "deadline": "its time was over (RAG_RERANK_DEADLINE_S)",
    "failed": "the cross-encoder failed",
}

UNANSWERED = "The documents do not answer this (no_evidence); `rag search` shows what comes nearest."


def search(arguments: argparse.Namespace) -> None:
    """Print the ranked chunks."""

    async def run(services: Services) -> None:
        who, question = await _asked(services, arguments)
        found = await services.retriever.retrieve(who.tenant_id, question)
        if arguments.json:
            show(search_result(found, explain=True, request_id="").model_dump_json())
            return
        for n, hit in enumerate(found.hits, 1):
            place = " > ".join(hit.chunk.breadcrumb) or hit.chunk.title
            show(f"{n}. {hit.chunk.external_id}  {place}  [{hit.chunk.start}:{hit.chunk.end}]  score {hit.score:.3f}")
            show("   " + shortened(hit.chunk.text, 300))
        if not found.hits:
            show("\n".join(found.hints) or "nothing found")
        show("; ".join(filter(None, (_how_reranked(found), _expansion(found), _times(found.timings_ms)))))

    _with_services(run)


def ask(arguments: argparse.Namespace) -> None:
    """Print the cited answer."""

    async def run(services: Services) -> None:
        who, question = await _asked(services, arguments)
        deadline = Deadline.after(services.settings.request_timeout_s)
        answer = await services.answerer.answer(who, question, max_tokens=ANSWER_TOKENS, deadline=deadline)
        if arguments.json:
            show(query_result(answer, "").model_dump_json())
            return
        show("\n".join(told(answer)))

    _with_services(run)


def told(answer: Answer) -> Iterator[str]:
    """The lines of an answer: its text, what it rests on, what is to be doubted, and who made it."""
    yield answer.text or "\n".join(answer.retrieval.hints) or UNANSWERED
    for c in answer.citations:
        yield f'  [{c.n}] {c.external_id} [{c.start}:{c.end}] "{shortened(c.quote, 120)}"'
    for doubt in answer.unsupported:
        yield f"  {doubt.reason}: {' '.join(answer.text[doubt.start : doubt.end].split())}"
    if answer.degraded:
        yield f"  {answer.degraded.detail}"
    kept = " (kept answer)" if answer.cache == "hit" else ""
    who = f" by {answer.target}{kept}" if answer.target else ", so no model was asked"
    found = answer.retrieval
    how = _how_reranked(found) if found.rerank_reason else ""
    yield "; ".join(filter(None, (f"{answer.status}{who}", how, _expansion(found), _times(answer.timings_ms))))


async def _asked(services: Services, arguments: argparse.Namespace) -> tuple[Principal, Question]:
    try:
        filters = json.loads(arguments.filters) if arguments.filters else None
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"--filters is not JSON: {exc}") from exc
    if not 1 <= arguments.top_k <= MAX_TOP_K:
        raise InvalidInput(f"--top-k takes 1 to {MAX_TOP_K}, not {arguments.top_k}")
    if not isinstance(filters, dict | None):
        raise InvalidInput("--filters takes a JSON object")
    who = Principal(
        await find_tenant(services.database, arguments.tenant), frozenset({"query"}), names(arguments.groups)
    )
    body = SearchBody(
        query=arguments.query, top_k=arguments.top_k, filters=filters, as_of=arguments.as_of,
        rerank=not arguments.no_rerank, recall=arguments.recall,
    )  # fmt: skip
    return who, body.question(who, services.settings)


def _expansion(retrieval: Retrieval) -> str:
    return "" if retrieval.expansion_state == "not_asked" else f"expansion {retrieval.expansion_state}"


def _how_reranked(found: Retrieval) -> str:
    if not found.hits:
        return ""
    return f"rerank {found.rerank}" + (f": {UNRANKED[found.rerank_reason]}" if found.rerank_reason else "")


def _times(timings_ms: dict[str, float]) -> str:
    return ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in timings_ms.items())


def _with_services(run: Callable[[Services], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with open_services(settings(), Metrics()) as services:
            await run(services)

    asyncio.run(opened())
