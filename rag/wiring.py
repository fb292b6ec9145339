"""The one place where the service's parts are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rag.answering.admission import AdmittedChat
from rag.answering.answerer import Answerer, Answering
from rag.answering.cache import AnswerCache, caching_of
from rag.answering.gate import Gate, Limits
from rag.inference.opening import open_embedders, open_reranker
from rag.llm.extractive import ExtractiveModel
from rag.protocols import Embedder
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Ranking, Retriever
from rag.settings import Settings
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.telemetry import Metrics

PROMPT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request needs."""

    settings: Settings
    database: Database
    embedders: Mapping[str, Embedder]
    retriever: Retriever
    answerer: Answerer
    metrics: Metrics


@asynccontextmanager
async def open_services(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Everything a request needs, until the block ends."""
    # the models first: a missing file is said before a database is started
    async with (
        open_embedders(settings) as embedders,
        open_reranker(settings) as reranker,
        open_store(settings) as database,
    ):
        retriever = Retriever(
            database,
            dense=DenseLeg(database, embedders, exact_below=settings.exact_below),
            lexical=LexicalLeg(database),
            reranker=reranker,
            ranking=Ranking(
                rerank_top=settings.rerank_top,
                rerank_deadline_s=settings.rerank_deadline_s,
                rerank_weight=settings.rerank_weight,
                fused_weight=settings.fused_weight,
            ),
        )
        answerer = Answerer(
            database,
            retriever=retriever,
            reranker=reranker,
            chat=AdmittedChat(ExtractiveModel(reranker), _gate(settings, metrics)),
            answering=Answering(settings.answer_min_support, settings.section_chars),
            cache=open_cache(settings, database, embedders),
        )
        yield Services(settings, database, embedders, retriever, answerer, metrics)


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
