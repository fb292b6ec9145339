"""`rag doctor`."""

from __future__ import annotations

import argparse
import asyncio

from rag.commands.opened import settings, show, with_store
from rag.inference.opening import open_embedders, open_reranker
from rag.llm.checking import check_target
from rag.llm.opening import check_chat, open_providers
from rag.settings import Settings
from rag.store.engine import Database


def doctor(_: argparse.Namespace) -> int:
    """0 when settings, models, chat targets and database are as they must be, each shown on a line; else 1."""

    async def run(database: Database) -> None:
        show(f"ok         {await database.describe()}, row-level security in force")

    ours = settings()
    kind = "embedded" if ours.database_url is None else "DATABASE_URL"
    show(f"ok         settings; data in {ours.home.absolute()}, database: {kind}")
    asyncio.run(_check_models(ours))
    answering = asyncio.run(_check_chat(ours))
    with_store(run)
    return int(not answering)


async def _check_chat(settings: Settings) -> bool:
    check_chat(settings)
    async with open_providers(settings) as providers:
        faults = await asyncio.gather(*map(check_target, providers))
    for provider, fault in zip(providers, faults, strict=True):
        target = provider.target
        show(f"{'wrong' if fault else 'ok':10} chat target {target.name}, {fault or f'{target.model} at {target.url}'}")
    return not any(faults)


async def _check_models(settings: Settings) -> None:
    async with open_embedders(settings) as embedders:
        show(f"ok         embedder {', '.join(embedders)}; RAG_EMBEDDER is {settings.embedder}")
    async with open_reranker(settings) as reranker:
        show(f"ok         reranker {reranker.name}; RAG_RERANKER is {settings.reranker}")
