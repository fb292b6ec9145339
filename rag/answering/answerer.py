"""The whole story of a question, in the order it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from rag.answering.abstention import support
from rag.answering.admission import AdmittedChat
from rag.answering.cache import AnswerCache, CachedChat
from rag.answering.citations import cite
from rag.calls import Answer, Call, ChatRequest, Reply, Usage
from rag.llm.extractive import find_evidence
from rag.protocols import ChatModel, Reranker
from rag.retrieval.expand import expand
from rag.retrieval.phrases import phrases
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.telemetry import Stopwatch
from rag.values import Deadline, Passage, Principal, Question, Retrieval


@dataclass(frozen=True, slots=True)
class Answering:
    """How much of the sources the model reads, and when they are too weak to answer from."""

    min_support: float
    section_chars: int


@dataclass(frozen=True, slots=True)
class Sources:
    """What an answer will be made from; no passages when they do not support one."""

    retrieval: Retrieval
    passages: tuple[Passage, ...]


class Answerer:
    """Answers from retrieved passages only."""

    def __init__(
        self,
        database: Database,
        *,
        retriever: Retriever,
        reranker: Reranker,
        chat: ChatModel,
        answering: Answering,
        cache: AnswerCache | None = None,
    ) -> None:
        """Retrieve, judge the evidence, and ask *chat* for what is not in *cache*."""
        self._database = database
        self._retriever = retriever
        self._reranker = reranker
        self._chat = chat
        self._answering = answering
        self._cache = cache

    async def answer(self, who: Principal, question: Question, *, max_tokens: int, deadline: Deadline) -> Answer:
        """The cited answer, or `no_evidence`."""
        clock = Stopwatch()
        sources = await self._sources(who, question, clock=clock, deadline=deadline)
        if not sources.passages:
            return _no_evidence(sources.retrieval, clock)
        chat, request = self._model(who, question, sources), _request(question, sources.passages, max_tokens)
        call = Call(who.tenant_id, deadline)
        with clock.running("model"):
            reply = await chat.complete(request, call)
        answer = _answer(reply, sources, clock)
        if isinstance(chat, CachedChat) and answer.status == "answered":
            await chat.keep(request, call, reply)
        return answer

    async def stream(
        self, who: Principal, question: Question, *, max_tokens: int, deadline: Deadline
    ) -> AsyncGenerator[Sequence[Passage] | str | Answer, None]:
        """The passages first, then pieces of text, then the whole answer. No connection is held meanwhile."""
        clock = Stopwatch()
        sources = await self._sources(who, question, clock=clock, deadline=deadline)
        if not sources.passages:
            yield ()
            yield _no_evidence(sources.retrieval, clock)
            return
        chat, request = self._model(who, question, sources), _request(question, sources.passages, max_tokens)
        call = Call(who.tenant_id, deadline)
        with clock.running("model"):
            async with aclosing(chat.stream(request, call)) as pieces:
                # who finds no room hears of it before anything is sent
                first = await anext(pieces) if isinstance(self._chat, AdmittedChat) else ""
                yield sources.passages
                async for piece in _from(first, pieces):
                    if isinstance(piece, Reply):
                        reply = piece
                    elif piece:
                        yield piece
        answer = _answer(reply, sources, clock)
        if isinstance(chat, CachedChat) and answer.status == "answered":
            await chat.keep(request, call, reply)
        yield answer

    def _model(self, who: Principal, question: Question, sources: Sources) -> ChatModel:
        """The model, behind the answers kept for this question."""
        return self._cache.around(self._chat, who, question, sources.retrieval) if self._cache else self._chat

    async def _sources(self, who: Principal, question: Question, *, clock: Stopwatch, deadline: Deadline) -> Sources:
        retrieval = await clock.timed("retrieval", self._retriever.retrieve(who.tenant_id, question))
        if not retrieval.hits:
            return Sources(retrieval, ())
        # what surrounds a chunk need not hold the phrase that was asked for
        chars = 0 if phrases(question.text) else self._answering.section_chars
        passages = await clock.timed(
            "expand", expand(self._database, who.tenant_id, retrieval.hits, scope=question.scope, section_chars=chars)
        )
        evidence = await clock.timed(
            "support", find_evidence(self._reranker, question.text, passages, deadline=deadline)
        )
        supported = support(question.text, evidence, passages) >= self._answering.min_support
        return Sources(retrieval, passages if supported else ())


def _request(question: Question, passages: tuple[Passage, ...], max_tokens: int) -> ChatRequest:
    return ChatRequest("answer", question.text, passages, messages=(), max_tokens=max_tokens)


def _answer(reply: Reply, sources: Sources, clock: Stopwatch) -> Answer:
    text, citations = cite(reply, sources.passages)
    if not text.strip():
        return replace(_no_evidence(sources.retrieval, clock), provider=reply.provider, model=reply.model)
    return Answer(
        status="degraded" if reply.degraded else "answered",
        text=text,
        citations=citations,
        provider=reply.provider,
        model=reply.model,
        usage=reply.usage,
        retrieval=sources.retrieval,
        timings_ms=clock.total(),
        finish=reply.finish,
        cache=reply.cache,
    )


def _no_evidence(retrieval: Retrieval, clock: Stopwatch) -> Answer:
    return Answer(
        status="no_evidence",
        text="",
        citations=(),
        provider="",
        model="",
        usage=Usage(),
        retrieval=retrieval,
        timings_ms=clock.total(),
    )


async def _from(first: str | Reply, rest: AsyncIterator[str | Reply]) -> AsyncIterator[str | Reply]:
    yield first
    async for item in rest:
        yield item
