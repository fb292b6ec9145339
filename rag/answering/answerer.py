"""The whole story of a question, in the order it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from rag.answering.abstention import support
from rag.answering.cache import AnswerCache, Found, replayed
from rag.answering.citations import cite
from rag.answering.followup import joined
from rag.answering.prompting import ALONE, PROMPT_VERSION, Talk, grounded
from rag.answering.rewriting import Rewriter
from rag.answering.showing import Showing
from rag.calls import Answer, Call, ChatRequest, Reply, Usage
from rag.llm.extractive import find_evidence
from rag.llm.placeholders import NO_GROWTH, Growth
from rag.protocols import ChatModel, Reranker
from rag.retrieval.expand import expand
from rag.retrieval.phrases import phrases
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.telemetry import Stopwatch
from rag.values import Deadline, Passage, Principal, Question, Retrieval, TenantId


@dataclass(frozen=True, slots=True)
class Answering:
    """How much of the sources the model reads, and when they are too weak to answer from.

    `window_tokens` is what the whole request may have, of the model that reads least; None where there is no model.
    `rewrites` says that a model writes follow-ups anew; without one they are searched with the turns they lean on.
    `data_classes` are the tags of documents that not every model may read, `growth` the tokens that a prompt may be
    longer by once it is redacted.
    """

    min_support: float
    section_chars: int
    window_tokens: int | None = None
    rewrites: bool = False
    data_classes: frozenset[str] = frozenset()
    growth: Growth = NO_GROWTH


@dataclass(frozen=True, slots=True)
class Sources:
    """What an answer will be made from, and the question they were searched for; no passages when none supports one."""

    standalone: str
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
        self._rewriter = Rewriter(chat) if answering.rewrites else None

    async def answer(
        self, who: Principal, question: Question, *, max_tokens: int, deadline: Deadline, talk: Talk = ALONE
    ) -> Answer:
        """The cited answer, or `no_evidence`."""
        clock = Stopwatch()
        sources = await self._sources(who, question, talk=talk, clock=clock, deadline=deadline)
        if not sources.passages:
            return _no_evidence(sources.retrieval, clock)
        request = self._request(question, sources, max_tokens=max_tokens, talk=talk)
        call = Call(who.tenant_id, deadline, talk.feature)
        with clock.running("model"):
            found = await self._find(who, question, request, sources.retrieval)
            reply = found.reply if found and found.reply else await self._chat.complete(request, call)
        answer = await self._answer(reply, request, sources.retrieval, clock=clock, deadline=deadline)
        return await self._kept(answer, found, reply, call)

    async def stream(
        self, who: Principal, question: Question, *, max_tokens: int, deadline: Deadline, talk: Talk = ALONE
    ) -> AsyncGenerator[Sequence[Passage] | str | Answer, None]:
        """The passages first, then pieces of text, then the whole answer. No connection is held meanwhile."""
        clock = Stopwatch()
        sources = await self._sources(who, question, talk=talk, clock=clock, deadline=deadline)
        if not sources.passages:
            yield ()
            yield _no_evidence(sources.retrieval, clock)
            return
        request = self._request(question, sources, max_tokens=max_tokens, talk=talk)
        call = Call(who.tenant_id, deadline, talk.feature)
        showing = Showing(passage.n for passage in request.passages)
        with clock.running("model"):
            found = await self._find(who, question, request, sources.retrieval)
            live = self._chat.stream(request, call)
            async with aclosing(replayed(found.reply) if found and found.reply else live) as pieces:
                first = await anext(pieces)  # who is refused hears of it before anything is sent
                yield request.passages
                async for piece in _from(first, pieces):
                    if isinstance(piece, Reply):
                        reply = piece
                    elif text := showing.feed(piece):
                        yield text
        if text := showing.rest():
            yield text
        answer = await self._answer(reply, request, sources.retrieval, clock=clock, deadline=deadline)
        yield await self._kept(answer, found, reply, call)

    async def _find(
        self, who: Principal, question: Question, request: ChatRequest, retrieval: Retrieval
    ) -> Found | None:
        """What is kept for the request; None without a cache."""
        if self._cache is None:
            return None
        return await self._cache.find(who, question, request, index_version=retrieval.index_version)

    async def _kept(self, answer: Answer, found: Found | None, reply: Reply, call: Call) -> Answer:
        """The answer with what the cache had to do with it, and for next time in the cache, if it is whole."""
        if self._cache is None or found is None:
            return answer
        if answer.status == "answered":
            await self._cache.keep(found, reply, call)
        return replace(answer, cache="hit" if found.reply else "miss")

    async def _sources(
        self, who: Principal, question: Question, *, talk: Talk, clock: Stopwatch, deadline: Deadline
    ) -> Sources:
        if talk.history:
            question = await clock.timed("rewrite", self._standalone(who.tenant_id, question, talk, deadline=deadline))
        retrieval = await clock.timed("retrieval", self._retriever.retrieve(who.tenant_id, question))
        if not retrieval.hits:
            return Sources(question.text, retrieval, ())
        # what surrounds a chunk need not hold the phrase that was asked for
        chars = 0 if phrases(question.text) else self._answering.section_chars
        passages = await clock.timed(
            "expand", expand(self._database, who.tenant_id, retrieval.hits, scope=question.scope, section_chars=chars)
        )
        evidence = await clock.timed(
            "support", find_evidence(self._reranker, question.text, passages, deadline=deadline)
        )
        supported = support(question.text, evidence, passages) >= self._answering.min_support
        return Sources(question.text, retrieval, passages if supported else ())

    async def _standalone(self, tenant_id: TenantId, question: Question, talk: Talk, *, deadline: Deadline) -> Question:
        """What is searched for; what a model wrote of earlier answers is of their data classes."""
        if self._rewriter is None:
            return replace(question, text=joined(question.text, talk.history))
        text = await self._rewriter.standalone(tenant_id, question.text, talk, deadline=deadline)
        return question if text == question.text else replace(question, text=text, tags=talk.tags)

    def _request(self, question: Question, sources: Sources, *, max_tokens: int, talk: Talk) -> ChatRequest:
        """The request, tagged with the data classes of the documents that are in it, and of earlier answers."""
        request = self._packed(question, sources, max_tokens=max_tokens, talk=talk)
        read = {tag for passage in request.passages for tag in passage.chunk.tags}
        return replace(request, tags=(self._answering.data_classes & read) | talk.tags)

    def _packed(self, question: Question, sources: Sources, *, max_tokens: int, talk: Talk) -> ChatRequest:
        """The request that fits the window, also with placeholders for what is redacted later."""
        window, spare = self._answering.window_tokens, 0
        while True:
            request = grounded(
                question.text,
                sources.passages,
                max_tokens=max_tokens,
                talk=talk,
                window_tokens=None if window is None else window - spare,
                standalone=sources.standalone,
            )
            growth = self._answering.growth(request.messages)
            if window is None or growth <= spare:
                return request
            spare = growth  # grows each time, until one source and no history is left

    async def _answer(
        self, reply: Reply, request: ChatRequest, retrieval: Retrieval, *, clock: Stopwatch, deadline: Deadline
    ) -> Answer:
        cited = await clock.timed("cite", cite(reply, request.passages, reranker=self._reranker, deadline=deadline))
        answer = Answer(
            status="degraded" if reply.degraded else "answered",
            text=cited.text,
            citations=cited.citations,
            unsupported=cited.unsupported,
            sources=request.passages,
            prompt_version=PROMPT_VERSION,
            target=reply.target,
            model=reply.model,
            usage=reply.usage,
            retrieval=retrieval,
            timings_ms=clock.total(),
            finish=reply.finish,
            degraded=reply.degraded,
            data_classes=request.tags,
        )
        return answer if cited.text.strip() else replace(answer, status="no_evidence", text="", citations=())


def _no_evidence(retrieval: Retrieval, clock: Stopwatch) -> Answer:
    return Answer(
        status="no_evidence",
        text="",
        citations=(),
        target="",
        model="",
        usage=Usage(),
        retrieval=retrieval,
        timings_ms=clock.total(),
    )


async def _from(first: str | Reply, rest: AsyncIterator[str | Reply]) -> AsyncIterator[str | Reply]:
    yield first
    async for item in rest:
        yield item
