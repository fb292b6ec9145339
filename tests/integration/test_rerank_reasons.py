"""Why the hits of a search are not, or not all, reranked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rag.errors import UpstreamError
from rag.inference.memory import RememberingReranker
from rag.inference.turns import SharedReranker
from rag.protocols import Reranker, Score
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.values import Deadline, RerankReason, Retrieval, TenantId
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import prepared, question, store

RANKING = Ranking(rerank_top=50, rerank_deadline_s=0.1, rerank_weight=1.0, fused_weight=1.0)


class Held(FakeReranker):
    """Scores nothing before it is let go, whatever the deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        self.asked.set()
        await self.free.wait()
        return await super().score(query, texts, deadline)


@pytest.fixture
async def boats(database: Database, tenant: TenantId) -> TenantId:
    await store(database, tenant, [prepared(f"{n}.md", f"boats sail {n}") for n in range(3)])
    return tenant


async def search(
    database: Database, tenant: TenantId, reranker: Reranker, ranking: Ranking = RANKING, *, rerank: bool = True
) -> Retrieval:
    retriever = Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=reranker,
        ranking=ranking,
    )
    return await retriever.retrieve(tenant, replace(question("boats"), rerank=rerank))


@pytest.mark.parametrize(
    ("reranker", "state", "reason"),
    [
        (FakeReranker(), "full", None),
        (FakeReranker(limit=2), "partial", "deadline"),
        (FakeReranker(limit=0), "skipped", "deadline"),
        (FakeReranker(UpstreamError("503")), "skipped", "failed"),
        (FakeReranker(logit=lambda query, text: float("nan") if "1" in text else 1.5), "partial", "failed"),
    ],
    ids=["all scored", "two in time", "none in time", "it failed", "one is no number"],
)
async def test_what_the_cross_encoder_left_out_is_told_with_the_reason(
    database: Database, boats: TenantId, reranker: Reranker, state: str, reason: RerankReason | None
) -> None:
    found = await search(database, boats, reranker)

    assert (found.rerank, found.rerank_reason, len(found.hits)) == (state, reason, 3)


async def test_a_cross_encoder_that_was_not_to_be_asked_has_another_reason_each_time(
    database: Database, boats: TenantId
) -> None:
    unasked = await search(database, boats, FakeReranker(), rerank=False)
    off = await search(database, boats, FakeReranker(), replace(RANKING, rerank_top=0))

    assert [(found.rerank, found.rerank_reason) for found in (unasked, off)] == [
        ("skipped", "not_asked"), ("skipped", "switched_off"),
    ]  # fmt: skip


async def test_without_hits_there_is_nothing_to_rerank(database: Database, tenant: TenantId) -> None:
    found = await search(database, tenant, FakeReranker())

    assert (found.hits, found.rerank, found.rerank_reason) == ((), "skipped", "nothing_found")


async def test_a_search_behind_too_many_others_says_so(database: Database, boats: TenantId) -> None:
    held = Held()
    shared = RememberingReranker(SharedReranker(held, clock=lambda: 0.0), memory_bytes=10_000)
    first = asyncio.create_task(search(database, boats, shared))
    await held.asked.wait()

    second = await search(database, boats, shared)  # 0.1 s are five pairs, of which three are before it
    held.free.set()

    assert (second.rerank, second.rerank_reason, len(second.hits)) == ("skipped", "busy", 3)
    assert ((await first).rerank, (await first).rerank_reason) == ("full", None)
