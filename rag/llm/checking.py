"""Whether a target answers: what `rag doctor` asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

from rag.calls import ChatRequest, Message
from rag.llm.endpoint import Endpoint
from rag.llm.events import End, Text
from rag.llm.failures import Failure, Reason

PING = ChatRequest("answer", "ping", (), (Message("user", "ping"),), max_tokens=1)
FINE: frozenset[Reason] = frozenset({"empty", "content_filtered"})  # it reads us, and one token is not much
WRONG: Mapping[Reason, str] = {
    "connect": "nothing answers at {url}; check its url in RAG_CHAT_TARGETS, and that it runs",
    "first_content_timeout": "no word within {seconds:g} s; is {model} still loading?",
    "rate_limited": "it takes no more requests now; key and model may be right",
    "quota": "the account has no credit or quota left",
    "context_length": "not even a word fits; check the model {model}",
}
OTHERWISE = "it fails ({reason}); key and model may be right"


async def check_target(endpoint: Endpoint) -> str | None:
    """What is wrong with a target, by a request for one token; None when it answers."""
    target = endpoint.target
    try:
        async with asyncio.timeout(target.first_content_timeout_s), aclosing(endpoint.events(PING)) as events:
            async for event in events:
                if isinstance(event, Text | End):
                    return None
        reason: Reason = "incomplete"
    except TimeoutError:
        reason = "first_content_timeout"
    except Failure as exc:
        if exc.reason in FINE:
            return None
        if exc.reason in {"config", "rejected"}:
            return _refusal(endpoint, exc)
        reason = exc.reason
    said = WRONG.get(reason, OTHERWISE)
    return said.format(url=target.url, model=target.model, seconds=target.first_content_timeout_s, reason=reason)


def _refusal(endpoint: Endpoint, failure: Failure) -> str:
    """Which of key, model and address the provider means, as far as its status tells."""
    target = endpoint.target
    by_status = {
        401: f"it refuses the key; check {target.name} in RAG_CHAT_KEYS",
        403: f"the key may not do this there; check {target.name} in RAG_CHAT_KEYS, its account and region",
        404: f"it knows no model {target.model}, or the url {target.url} is not the right one",
    }
    fallback = f"it refuses the request; check the dialect {target.dialect}, the url {target.url}, the model, the key"
    said = by_status.get(failure.status or 0, fallback)
    return f"{said} ({failure.detail})" if failure.detail else said
