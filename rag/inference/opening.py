"""The models that the settings name."""

from __future__ import annotations

from rag.errors import SetupError
from rag.inference.memory import RememberingReranker
from rag.inference.onnx import OnnxEmbedder, OnnxReranker
from rag.inference.sentence_transformers import SentenceTransformerEmbedder, SentenceTransformerReranker
from rag.protocols import Embedder, Reranker
from rag.settings import DEFAULT_MODEL, Settings
from rag.values import DIMS


def open_embedders(settings: Settings) -> dict[str, Embedder]:
    """The embedders that RAG_EMBEDDER lists, by their names: the first makes new indexes, the others serve old ones.

    Raises SetupError for a model whose vectors do not fit the column.
    """
    opened = [_open_embedder(name.strip(), settings) for name in settings.embedder.split(",")]
    return {embedder.name: embedder for embedder in opened}


def _open_embedder(name: str, settings: Settings) -> Embedder:
    if name == DEFAULT_MODEL:
        return OnnxEmbedder(settings.models / "bge_small_en", settings.inference_threads)
    embedder = SentenceTransformerEmbedder(name)
    if embedder.dims != DIMS:
        raise SetupError(f"RAG_EMBEDDER {name!r} gives vectors of {embedder.dims}, the index has {DIMS}")
    return embedder


def open_reranker(settings: Settings) -> Reranker:
    """The cross-encoder, with a memory."""
    if settings.reranker == DEFAULT_MODEL:
        return RememberingReranker(OnnxReranker(settings.models / "reranker_en", settings.inference_threads))
    return RememberingReranker(SentenceTransformerReranker(settings.reranker))
