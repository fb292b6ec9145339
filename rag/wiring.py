"""The one place where the service's parts are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rag.answering.admission import AdmittedChat
from rag.answering.answerer import Answerer, Answering
from rag.answering.cache import AnswerCache, caching_of
from rag.answering.expansion import Expander
from rag.answering.gate import Gate, Limits
from rag.answering.metering import MeteredChat, free_endings, paid_chains
from rag.answering.prices import Prices
from rag.answering.prompting import PROMPT_VERSION
from rag.inference.opening import open_embedders, open_reranker
from rag.llm.lanes import Lanes
from rag.llm.opening import open_chat
from rag.llm.placeholders import growth_by
from rag.protocols import ChatModel, Embedder
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.settings import Settings
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.telemetry import Metrics


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request needs."""

    settings: Settings
    database: Database
    embedders: Mapping[str, Embedder]
    retriever: Retriever
    answerer: Answerer
    lanes: Lanes
    metrics: Metrics


@asynccontextmanager
async def open_services(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Everything a request needs, until the block ends."""
    # the models first: a missing file is said before a database is started
    async with (
        open_embedders(settings) as embedders,
        open_reranker(settings) as reranker,
        open_chat(settings, reranker, metrics) as chat,
        open_store(settings) as database,
        guarded(chat, settings, database, metrics) as guarded_chat,
    ):
        retriever = Retriever(
            database,
            dense=DenseLeg(database, embedders, exact_below=settings.exact_below),
            lexical=LexicalLeg(database),
            reranker=reranker,
            ranking=settings.ranking,
            expanding=expander(settings, guarded_chat),
        )
        answerer = Answerer(
            database,
            retriever=retriever,
            reranker=reranker,
            chat=guarded_chat,
            answering=answering_of(settings),
            cache=open_cache(settings, database, embedders),
        )
        yield Services(settings, database, embedders, retriever, answerer, chat.lanes, metrics)


@asynccontextmanager
async def guarded(
    chat: ChatModel, settings: Settings, database: Database, metrics: Metrics
) -> AsyncIterator[ChatModel]:
    """*chat* as requests reach it: let in, then told nothing that it should not be, then paid for as it is told."""
    metered = MeteredChat(
        chat,
        database,
        prices=Prices(settings.prices),
        chains=paid_chains(settings),
        free=free_endings(settings),
    )
    try:
        yield AdmittedChat(_redacting(metered, settings), _gate(settings, metrics))
    finally:
        await metered.drain()


def _redacting(chat: ChatModel, settings: Settings) -> ChatModel:
    if not settings.redact:
        return chat
    from rag.llm.redaction import RedactingChat  # noqa: PLC0415 - the phone numbers of the world take 0.2 s to load

    return RedactingChat(chat, settings.redact, settings.redact_region)


def expander(settings: Settings, chat: ChatModel) -> Expander | None:
    """What makes more of questions, if there is a chain for it."""
    return Expander(chat, always=settings.expansion == "always") if "hyde" in settings.chat_chains else None


def answering_of(settings: Settings) -> Answering:
    """What *settings* say of answers."""
    return Answering(
        min_support=settings.answer_min_support,
        section_chars=settings.section_chars,
        window_tokens=_window_tokens(settings),
        rewrites="rewrite" in settings.chat_chains,
        data_classes=settings.data_classes,
        growth=growth_by(settings.redact, settings.redact_region),
    )


def _window_tokens(settings: Settings) -> int | None:
    """What every model that may be asked for an answer can read, None when none is."""
    chain = settings.chat_chains["answer"]
    return min((target.context_tokens for target in settings.chat_targets if target.name in chain), default=None)


def _gate(settings: Settings, metrics: Metrics) -> Gate:
    """The gate of this process, which `/metrics` shows."""
    limits = Limits(
        slots=settings.answer_concurrency,
        queue=settings.answer_queue,
        tenant_share=settings.answer_tenant_share,
        wait_s=settings.answer_wait_s,
    )
    gate = Gate(limits)
    metrics.answering.labels("running").set_function(lambda: gate.running)
    metrics.answering.labels("waiting").set_function(lambda: gate.waiting)
    return gate


def open_cache(settings: Settings, database: Database, embedders: Mapping[str, Embedder]) -> AnswerCache | None:
    """The cache of answers, if there is one."""
    caching = caching_of(settings, PROMPT_VERSION)
    return AnswerCache(database, next(iter(embedders.values())), caching) if caching else None
