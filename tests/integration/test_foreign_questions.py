"""Questions in a language that the embedder does not know."""

from __future__ import annotations

import numpy as np
import pytest

from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.values import Facets, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder, FakeReranker, embedders, unit_vector
from tests.integration.corpus import prepared, question, store

GERMAN, ENGLISH = "Wie lange dauert eine Rückerstattung?", "How long does a refund take?"


class EnglishEmbedder(FakeEmbedder):
    langs = frozenset({"en"})


def dense_leg(database: Database, embedder: FakeEmbedder) -> DenseLeg:
    return DenseLeg(database, embedders(embedder), exact_below=10_000)


async def tenant_with(database: Database, make_tenant: MakeTenant, lang: str) -> TenantId:
    """Two documents on which the legs differ: the words of GERMAN are in a.md, its vector is that of b.md."""
    tenant, facets = await make_tenant(), Facets(lang=lang)
    vectors = [unit_vector(text)[np.newaxis] for text in ("trains", GERMAN)]
    a = prepared("a.md", "Rückerstattung in fünf Tagen", facets=facets, vectors=vectors[0])
    b = prepared("b.md", "Züge", facets=facets, vectors=vectors[1])
    await store(database, tenant, [a, b])
    return tenant


@pytest.mark.parametrize(
    ("embedder", "lang", "text", "fits"),
    [
        (EnglishEmbedder(), "de", GERMAN, False),
        (EnglishEmbedder(), "de", ENGLISH, True),
        (EnglishEmbedder(), "en", GERMAN, True),
        (FakeEmbedder(), "de", GERMAN, True),
    ],
    ids=[
        "words know more than the embedder",
        "the embedder knows the question",
        "words of another language than the documents' find nothing",
        "a model of many languages",
    ],
)
async def test_the_dense_leg_tells_whether_its_model_fits(
    database: Database, make_tenant: MakeTenant, embedder: FakeEmbedder, lang: str, text: str, fits: bool
) -> None:
    tenant = await tenant_with(database, make_tenant, lang)

    assert (await dense_leg(database, embedder)(tenant, question(text), 50)).fits == fits


@pytest.mark.parametrize(
    ("embedder", "scores"),
    [(EnglishEmbedder(), [2 / 3, 1 / 3]), (FakeEmbedder(), [1 / 2, 1 / 2])],
    ids=["half", "full"],
)
async def test_a_model_that_does_not_fit_counts_half(
    database: Database, make_tenant: MakeTenant, embedder: FakeEmbedder, scores: list[float]
) -> None:
    tenant = await tenant_with(database, make_tenant, "de")
    retriever = Retriever(
        database,
        dense=dense_leg(database, embedder),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=Ranking(rerank_top=0, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0),
    )

    found = await retriever.retrieve(tenant, question(GERMAN))

    assert [hit.fused_score for hit in found.hits] == pytest.approx(scores)
