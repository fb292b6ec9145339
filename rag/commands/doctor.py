"""`rag doctor`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping

from rag.answering.cautions import cautions, unpriced, unreadable
from rag.calls import Task
from rag.commands.opened import show
from rag.errors import RagError
from rag.inference.opening import open_embedders, open_reranker
from rag.llm.checking import check_target
from rag.llm.opening import check_chat, open_endpoints
from rag.settings import Settings, load_settings
from rag.store.opening import open_store
from rag.telemetry import configure_logging

DOING: Mapping[Task, tuple[str, str]] = {  # what a chain does, and what is done without
    "answer": ("answers by", ""),
    "hyde": ("other words for high recall (hyde) by", 'no chain for hyde: "recall": "high" finds what "normal" finds'),
    "rewrite": ("follow-ups are rewritten by", "no chain for rewrite: follow-ups are searched for with what precedes"),
}


def doctor(_: argparse.Namespace) -> int:
    """0 when settings, models, chat targets and database are as they must be, each shown on a line; else 1."""
    ours = load_settings()
    configure_logging("error")  # what is wrong stands on a line of its own
    kind = "embedded" if ours.database_url is None else "DATABASE_URL"
    _say("ok", f"settings; data in {ours.home.absolute()}, database: {kind}")
    checks = (_check_embedders, _check_reranker, _check_chat, _check_database)
    passed = [_passes(check, ours) for check in checks]
    return int(not all(passed))


def _passes(check: Callable[[Settings], Awaitable[bool]], settings: Settings) -> bool:
    """Whether nothing is wrong; one fault hides no other."""

    async def checked() -> bool:
        return await check(settings)

    try:
        return asyncio.run(checked())
    except RagError as exc:
        _say("wrong", exc.detail.removeprefix("wrong setting: "))
        return False


async def _check_embedders(settings: Settings) -> bool:
    async with open_embedders(settings) as embedders:
        _say("ok", f"embedder {', '.join(embedders)}; RAG_EMBEDDER is {settings.embedder}")
    return True


async def _check_reranker(settings: Settings) -> bool:
    async with open_reranker(settings) as reranker:
        _say("ok", f"reranker {reranker.name}; RAG_RERANKER is {settings.reranker}")
    return True


async def _check_chat(settings: Settings) -> bool:
    check_chat(settings)
    for caution in (*cautions(settings), *unpriced(settings), *unreadable(settings)):
        _say("warning", caution)
    async with open_endpoints(settings) as endpoints:
        faults = await asyncio.gather(*map(check_target, endpoints))
    for endpoint, fault in zip(endpoints, faults, strict=True):
        target = endpoint.target
        _say("wrong" if fault else "ok", f"chat target {target.name}: {fault or f'{target.model} at {target.url}'}")
    for line in chains(settings):
        _say("ok", line)
    return not any(faults)


def chains(settings: Settings) -> list[str]:
    """Who answers questions, and who writes for searches, or what is done without."""
    return [
        *(f"{does} {', else '.join(settings.chat_chains[task])}" for task, (does, _) in DOING.items()
          if task in settings.chat_chains),
        *(without for task, (_, without) in DOING.items() if task not in settings.chat_chains),
    ]  # fmt: skip


async def _check_database(settings: Settings) -> bool:
    async with open_store(settings) as database:
        _say("ok", f"{await database.describe()}, row-level security in force")
    return True


def _say(verdict: str, text: str) -> None:
    show(f"{verdict:10} {text}")
