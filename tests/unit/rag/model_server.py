"""A model server without a network: a function answers the requests, and what it was sent is kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2

from rag.inference.address import read_address
from rag.inference.model_service import Chance, ModelService, open_model_service
from rag.inference.remote import EMBEDDER_OPTIONS, RERANKER_OPTIONS

KEY = "sk-very-secret"

Body = dict[str, Any]
Answer = Callable[[Body], Any] | Callable[[Body], Awaitable[Any]]


@dataclass
class ModelServer:
    """Answers with what *answer* makes of a body: a whole response, or the JSON of one."""

    answer: Answer
    requests: list[httpx2.Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    @property
    def bodies(self) -> list[Body]:
        return [json.loads(request.content) for request in self.requests]

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self.answer(json.loads(request.content))
        if isinstance(reply, Awaitable):
            reply = await reply
        return reply if isinstance(reply, httpx2.Response) else httpx2.Response(200, content=json.dumps(reply))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @asynccontextmanager
    async def open(
        self, setting: str = "RAG_EMBEDDER", *, key: str = KEY, options: Mapping[str, object] | None = None
    ) -> AsyncIterator[ModelService]:
        """The service with the model `m`; half of every possible jitter is taken, and no pause takes time."""
        url = f"https://models.test/v1?{urlencode({'model': 'm', **(options or {})})}"
        known = EMBEDDER_OPTIONS if setting == "RAG_EMBEDDER" else RERANKER_OPTIONS
        address = read_address(url, setting, key=key, known=known)
        chance = Chance(uniform=lambda low, high: (low + high) / 2, sleep=self.pause)
        async with open_model_service(address, transport=httpx2.MockTransport(self.handle), chance=chance) as service:
            yield service


def embeddings(vectors: Sequence[Sequence[float]]) -> Body:
    """The body of POST /embeddings, its rows in the wrong order."""
    rows = [{"object": "embedding", "index": n, "embedding": list(vector)} for n, vector in enumerate(vectors)]
    return {"object": "list", "data": rows[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def scores(numbers: Sequence[float]) -> Body:
    """The body of POST /rerank: as services do it, the best first."""
    rows = [{"index": n, "relevance_score": number} for n, number in enumerate(numbers)]
    return {"results": sorted(rows, key=lambda row: -row["relevance_score"])}
