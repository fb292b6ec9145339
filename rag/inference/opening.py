"""The models that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pydantic import SecretStr

from rag.errors import SetupError
from rag.inference.address import is_address, read_address
from rag.inference.memory import RememberingReranker
from rag.inference.model_service import open_model_service
from rag.inference.onnx import OnnxEmbedder, OnnxReranker
from rag.inference.remote import EMBEDDER_OPTIONS, RERANKER_OPTIONS, RemoteEmbedder, RemoteReranker
from rag.inference.sentence_transformers import SentenceTransformerEmbedder, SentenceTransformerReranker
from rag.inference.turns import SharedReranker
from rag.protocols import Embedder, Reranker
from rag.settings import DEFAULT_MODEL, Settings
from rag.values import DIMS


@asynccontextmanager
async def open_embedders(settings: Settings) -> AsyncIterator[dict[str, Embedder]]:
    """The embedders that RAG_EMBEDDER lists, by their names: the first makes new indexes, the others serve old ones.

    Raises SetupError for a model whose vectors do not fit the column, UpstreamError for a service that is away.
    """
    names = [name.strip() for name in settings.embedder.split(",")]
    keys = iter(_keys(settings.embedder_key, sum(map(is_address, names))))
    opened: dict[str, Embedder] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            key = next(keys) if is_address(name) else ""
            embedder = await stack.enter_async_context(_open_embedder(name, key, settings))
            if embedder.name in opened:
                raise SetupError(f"RAG_EMBEDDER lists {embedder.name} twice")
            opened[embedder.name] = embedder
        yield opened


@asynccontextmanager
async def open_reranker(settings: Settings) -> AsyncIterator[Reranker]:
    """The cross-encoder, with a queue and a memory; raises as `open_embedders` does."""
    memory = settings.rerank_memory_bytes
    if not is_address(settings.reranker):
        local = await asyncio.to_thread(_local_reranker, settings)
        yield RememberingReranker(SharedReranker(local), memory_bytes=memory)
        return
    address = read_address(
        settings.reranker, "RAG_RERANKER", key=_secret(settings.reranker_key), known=RERANKER_OPTIONS
    )
    async with open_model_service(address) as service:
        remote = RemoteReranker(service)
        await remote.check()
        yield RememberingReranker(SharedReranker(remote), memory_bytes=memory)


@asynccontextmanager
async def _open_embedder(name: str, key: str, settings: Settings) -> AsyncIterator[Embedder]:
    if not is_address(name):
        yield await asyncio.to_thread(_local_embedder, name, settings)
        return
    async with open_model_service(read_address(name, "RAG_EMBEDDER", key=key, known=EMBEDDER_OPTIONS)) as service:
        remote = RemoteEmbedder(service)
        await remote.check()
        yield remote


def _local_embedder(name: str, settings: Settings) -> Embedder:
    if name == DEFAULT_MODEL:
        return OnnxEmbedder(settings.models / "bge_small_en", settings.inference_threads)
    embedder = SentenceTransformerEmbedder(name)
    if embedder.dims != DIMS:
        raise SetupError(f"RAG_EMBEDDER {name!r} gives vectors of {embedder.dims}, the index has {DIMS}")
    return embedder


def _local_reranker(settings: Settings) -> Reranker:
    if settings.reranker == DEFAULT_MODEL:
        return OnnxReranker(settings.models / "reranker_en", settings.inference_threads)
    return SentenceTransformerReranker(settings.reranker)


def _keys(secret: SecretStr | None, urls: int) -> list[str]:
    """A key for each URL: no service is shown another's."""
    if not (text := _secret(secret)):
        return [""] * urls
    keys = [key.strip() for key in text.split(",")]
    if urls and len(keys) != urls:
        raise SetupError(f"RAG_EMBEDDER_KEY lists {len(keys)} keys for {urls} URLs; it takes one for each, in order")
    return keys


def _secret(secret: SecretStr | None) -> str:
    return secret.get_secret_value().strip() if secret else ""
