"""A service's answering part with a scripted chat model, as the tests of the answer cache use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import psycopg

from rag.answering.answerer import Answerer
from rag.calls import Answer, Attempt, Call, ChatRequest, Reply, Usage
from rag.protocols import ChatModel
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.settings import Settings, Target
from rag.store.engine import Database
from rag.values import Deadline, Principal, Question, TenantId
from rag.wiring import answering_of, open_cache
from tests.fakes import FakeReranker, StreamedChat, embedders
from tests.integration.corpus import prepared, question

ASKED = "How long does a refund take?"
REFUNDS = prepared("refunds.md", "A refund takes five days. How long a chargeback takes depends.")
FEES = prepared("fees.md", "A fee of a refund is two euros.")
SPENT = Usage(7, 0, 0, 3, 0)
TARGETS = tuple(
    Target(name=name, dialect="openai", url="http://model", model=f"{name}-large") for name in ("one", "two")
)


class ScriptedChat(StreamedChat):
    """Answers with *pieces* as *target*; *meanwhile* something happens, or *error* ends it."""

    def __init__(
        self,
        *pieces: str,
        target: str = "one",
        error: Exception | None = None,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
        **reply: Any,
    ) -> None:
        self.pieces = pieces or ("It takes ", "five ", "days. ", "[1]")
        self.target = target
        self.error = error
        self.meanwhile = meanwhile
        self.reply = reply
        self.requests: list[ChatRequest] = []

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        self.requests.append(request)
        outcome = "partial"
        try:
            for piece in self.pieces:
                yield piece
            if self.meanwhile:
                await self.meanwhile()
            if self.error:
                raise self.error
            outcome = "answered"
            yield Reply("".join(self.pieces), "fake", f"{self.target}-large", SPENT, **self.reply)
        finally:
            number = len(call.attempts) + 1
            call.attempts.append(Attempt(number, self.target, self.target, outcome, SPENT))  # type: ignore[arg-type]


def settings(*chain: str, **changed: Any) -> Settings:
    """The settings of a service that asks the targets of *chain*, by default the first alone."""
    return Settings(chat_targets=TARGETS, chat_chains={"answer": chain or ("one",)}, **changed)


def answerer(
    database: Database, chat: ChatModel, given: Settings | None = None, *, cache_in: Database | None = None
) -> Answerer:
    given = given or settings()
    reranker = FakeReranker()
    retriever = Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=reranker,
        ranking=Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=1.0),
    )
    return Answerer(
        database,
        retriever=retriever,
        reranker=reranker,
        chat=chat,
        answering=replace(answering_of(given), min_support=0.2),
        cache=open_cache(given, cache_in or database, embedders()),
    )


async def ask(
    answering: Answerer, tenant: TenantId, asked: str | Question, *, groups: tuple[str, ...] = (), max_tokens: int = 100
) -> Answer:
    """The answer to somebody in *groups*."""
    asked = question(asked) if isinstance(asked, str) else asked
    who = Principal(tenant, frozenset({"query"}), frozenset(groups))
    return await answering.answer(who, asked, max_tokens=max_tokens, deadline=Deadline.after(10))


def kept(owner: psycopg.Connection, tenant: TenantId) -> int:
    """How many answers of the tenant are kept."""
    rows = owner.execute(
        "SELECT (SELECT count(*) FROM answer_cache WHERE tenant_id = %(t)s),"
        " (SELECT count(DISTINCT key) FROM answer_sources WHERE tenant_id = %(t)s)",
        {"t": tenant},
    ).fetchall()
    assert rows[0][0] == rows[0][1]
    return int(rows[0][0])


async def stream(answering: Answerer, tenant: TenantId, asked: str) -> list[Any]:
    """Every event of the streamed answer."""
    who = Principal(tenant, frozenset({"query"}))
    events = answering.stream(who, question(asked), max_tokens=100, deadline=Deadline.after(10))
    async with aclosing(events):
        return [event async for event in events]
