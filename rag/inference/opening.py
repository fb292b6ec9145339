"""The models that the settings name."""

from __future__ import annotations

from rag.inference.memory import RememberingReranker
from rag.inference.onnx import OnnxEmbedder, OnnxReranker
from rag.protocols import Embedder, Reranker
from rag.settings import Settings


def open_embedder(settings: Settings) -> Embedder:
    """The embedder of documents and questions."""
    return OnnxEmbedder(settings.models / "bge_small_en", settings.inference_threads)


def open_reranker(settings: Settings) -> Reranker:
    """The cross-encoder, with a memory."""
    return RememberingReranker(OnnxReranker(settings.models / "reranker_en", settings.inference_threads))
