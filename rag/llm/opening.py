"""The chat models that the settings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

from rag.errors import SetupError
from rag.llm.endpoint import Endpoint, open_http
from rag.llm.extractive import ExtractiveModel
from rag.llm.failover import FailoverChat
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.protocols import Reranker
from rag.settings import EXTRACTIVE, Settings
from rag.telemetry import Metrics

STATES = ("closed", "half_open", "open", "resting", "disabled")  # as the metrics number them


@asynccontextmanager
async def open_chat(settings: Settings, reranker: Reranker, metrics: Metrics) -> AsyncIterator[FailoverChat]:
    """The chains of the settings, ready to be asked; *reranker* chooses the sentences of `extractive`.

    Raises SetupError naming everything that is wrong with them.
    """
    check_chat(settings)
    async with open_endpoints(settings) as endpoints:
        hops = {endpoint.target.name: Hop(endpoint) for endpoint in endpoints}
        for name, hop in hops.items():
            metrics.target_state.labels(name).set_function(partial(_state, hop))
        lanes = Lanes(
            {
                task: Chain(tuple(hops[name] for name in names if name != EXTRACTIVE), EXTRACTIVE in names)
                for task, names in settings.chat_chains.items()
            }
        )
        yield FailoverChat(lanes, ExtractiveModel(reranker), metrics)


@asynccontextmanager
async def open_endpoints(settings: Settings) -> AsyncIterator[list[Endpoint]]:
    """An endpoint for each target, with its key."""
    async with open_http() as http:
        yield [Endpoint(target, settings.chat_keys.get(target.name), http) for target in settings.chat_targets]


def _state(hop: Hop) -> float:
    return STATES.index(hop.breaker.state)


def check_chat(settings: Settings) -> None:
    """Raise SetupError when targets, keys and chains do not fit together."""
    if faults := list(_faults(settings)):
        raise SetupError("wrong setting: " + "; ".join(faults))


def _faults(settings: Settings) -> Iterator[str]:
    names = Counter(target.name for target in settings.chat_targets)
    yield from (f"RAG_CHAT_TARGETS: two are named {name}" for name, times in names.items() if times > 1)
    if EXTRACTIVE in names:
        yield f"RAG_CHAT_TARGETS: {EXTRACTIVE} is the name of the model without a network"
    yield from (f"RAG_CHAT_KEYS: no target is named {name}" for name in settings.chat_keys if name not in names)
    for target in settings.chat_targets:
        for name in sorted(target.allows - settings.data_classes):
            yield f"RAG_CHAT_TARGETS: {target.name} allows {name}, which RAG_DATA_CLASSES does not name"
    for task, chain in settings.chat_chains.items():
        where = f"RAG_CHAT_CHAINS: {task}"
        if not chain:
            yield f"{where} names no target"
        yield from (f"{where} names {name}, which is no target" for name in chain if name not in {*names, EXTRACTIVE})
        yield from (f"{where} names {name} twice" for name, times in Counter(chain).items() if times > 1)
        if EXTRACTIVE in chain[:-1]:
            yield f"{where}: {EXTRACTIVE} always answers, so it can only be the last"
        if EXTRACTIVE in chain and task != "answer":
            yield f"{where}: {EXTRACTIVE} chooses sentences of sources; it can only answer"
