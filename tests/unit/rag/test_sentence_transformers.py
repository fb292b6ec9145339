"""The two errors of the sentence-transformers backends; test_model_contract.py has the rest."""

from __future__ import annotations

import pytest

from rag.errors import ModelMissing, SetupError
from rag.inference.opening import open_embedders
from rag.inference.sentence_transformers import SentenceTransformerEmbedder
from rag.settings import Settings


async def test_a_model_that_is_not_there_is_one_clear_error() -> None:
    pytest.importorskip("sentence_transformers", reason="the extra is not installed")

    with pytest.raises(ModelMissing, match="cannot be loaded"):
        SentenceTransformerEmbedder("/no/such/folder")


async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)

    with pytest.raises(SetupError, match=r"rag-service\[sentence-transformers\]"):
        async with open_embedders(Settings(embedder="some/model")):
            pass
