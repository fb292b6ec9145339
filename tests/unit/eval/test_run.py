"""Asking every question of a suite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from eval.run import ask_all
from eval.service import Asker, Service
from eval.suite import Question, load

Scripted = Callable[..., Service]


def test_every_question_is_searched_whole_and_asked_in_its_scope(
    scripted: Scripted, hit: Callable[..., dict[str, Any]], golden: Callable[..., Path], asked: dict[str, Any]
) -> None:
    scope = {"filters": {"field": "doc_type", "op": "eq", "value": "guide"}, "as_of": "2024-05-01"}
    suite = load(golden(asked, asked | {"id": "acme-002", "question": "And then?", "groups": ["hr"], **scope}))
    bodies: list[tuple[str, dict[str, Any]]] = []

    def script(route: str, body: dict[str, Any]) -> dict[str, Any]:
        if route == "/v1/documents/guides/install.md":
            return {"text": "Run `make demo` **first**. Then rest."}
        bodies.append((route, body))
        text = "Run `make demo` **first**."
        if route == "/v1/search":
            found = [hit("c0", "other.md", "?", fused=2), hit("c1", "guides/install.md", text, fused=1, dense=1)]
            return {"hits": found, "complete": True, "rerank": "full"}
        quote = {"n": 1, "chunk_id": "c1", "external_id": "guides/install.md", "start": 0, "end": 26, "quote": text}
        return {"status": "answered", "citations": [quote], "provider": "p", "model": "m"}

    run = asyncio.run(ask_all(scripted(script), suite.questions))

    assert [outcome.id for outcome in run.outcomes] == ["acme-001", "acme-002"]
    assert run.outcomes[0].ranks == {"dense": (1,), "lexical": (None,), "fused": (1,), "reranked": (2,)}
    assert run.outcomes[0].first == ("other.md > T > Section", "guides/install.md > T > Section")
    assert [outcome.quote_errors for outcome in run.outcomes] == [0, 0]
    assert run.models == ("p/m",)
    assert len(run.search_ms) == len(run.query_ms) == 2
    searched = {"query": "How do I start?", "top_k": 100, "explain": True, "rerank": True}
    assert ("/v1/search", searched) in bodies
    assert ("/v1/query", {"query": "And then?", **scope}) in bodies


def test_the_named_index_is_asked_in_both_routes(
    scripted: Scripted, golden: Callable[..., Path], asked: dict[str, Any]
) -> None:
    bodies: list[dict[str, Any]] = []

    def script(route: str, body: dict[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        if route == "/v1/search":
            return {"hits": [], "complete": True, "rerank": "full"}
        return {"status": "no_evidence", "citations": []}

    asyncio.run(ask_all(scripted(script), load(golden(asked)).questions, "next"))

    assert [body["index"] for body in bodies] == ["next", "next"]


def test_at_most_two_questions_are_under_way() -> None:
    questions = [Question(id=f"q{n}", tenant="acme", type="unanswerable", question="?", gold=()) for n in range(5)]
    under_way, seen = 0, []

    async def handler(request: httpx2.Request) -> httpx2.Response:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        found = {"hits": [], "complete": True, "rerank": "full"}
        refused = {"status": "no_evidence", "citations": []}
        return httpx2.Response(200, json=found if request.url.path == "/v1/search" else refused)

    http = httpx2.AsyncClient(base_url="http://service", transport=httpx2.MockTransport(handler))
    run = asyncio.run(ask_all(Service(http, {Asker("acme"): "k"}), questions))

    assert max(seen) == 2
    assert {outcome.verdict for outcome in run.outcomes} == {"right"}
