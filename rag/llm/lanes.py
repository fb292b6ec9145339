"""Which targets a request may go to, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.calls import ChatRequest, Task, prompt_tokens
from rag.errors import ContextLength, NotAllowed, SetupError
from rag.llm.breaker import State
from rag.llm.hop import Hop

OUT: frozenset[State] = frozenset({"open", "disabled"})


@dataclass(frozen=True, slots=True)
class Chain:
    """The targets of a task in order; `extractive` when the sentences of the sources end it."""

    hops: tuple[Hop, ...]
    extractive: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A chain as far as one request may take it."""

    hops: tuple[Hop, ...]
    extractive: bool
    best_tier: int | None  # of the target that the settings want first; None when that is the extractive model

    def degraded(self, hop: Hop | None) -> bool:
        """Whether an answer of *hop*, None being the extractive model, is one of a lesser model."""
        return self.best_tier is not None and (hop is None or hop.target.tier > self.best_tier)


class Lanes:
    """The chains by task."""

    def __init__(self, chains: Mapping[Task, Chain]) -> None:
        """Choose among *chains*."""
        self._chains = chains

    def states(self) -> dict[str, State]:
        """The state of each target's breaker, by name."""
        hops = (hop for chain in self._chains.values() for hop in chain.hops)
        return {hop.target.name: hop.breaker.state for hop in hops}

    def can_answer(self) -> bool:
        """Whether something is left that answers questions."""
        chain = self._chains["answer"]
        return chain.extractive or any(hop.breaker.state not in OUT for hop in chain.hops)

    def route(self, request: ChatRequest) -> Route:
        """The targets that may read *request* and can serve it, the API before a local one that has too much to do.

        Raises NotAllowed when none may read it, ContextLength when it is too long for all that may, SetupError when
        none is able.
        """
        chain = self._chains.get(request.task)
        if chain is None:
            raise SetupError(f"RAG_CHAT_CHAINS has no chain for the task {request.task}")
        allowed = [hop for hop in chain.hops if request.tags <= hop.target.allows]
        able = [hop for hop in allowed if request.needs <= hop.target.can]
        tokens = prompt_tokens(request.messages)
        fitting = [hop for hop in able if tokens + request.max_tokens <= hop.target.context_tokens]
        extractive = chain.extractive and not request.needs
        if not fitting and not extractive:
            raise ContextLength if able else _nobody(request, allowed)
        if not request.batch:
            fitting = _overflowing(fitting, tokens)
        return Route(tuple(fitting), extractive, chain.hops[0].target.tier if chain.hops else None)


def _overflowing(hops: Sequence[Hop], tokens: int) -> list[Hop]:
    """Local targets that are busy, or would read for long, behind those of the API."""

    def waits(hop: Hop) -> bool:
        target = hop.target
        busy = hop.under_way >= target.overflow_depth or tokens > target.overflow_tokens
        return target.lane == "local" and busy

    return sorted(hops, key=waits)  # stable: else in the order of the chain


def _nobody(request: ChatRequest, allowed: Sequence[Hop]) -> NotAllowed | SetupError:
    if request.tags and not allowed:
        return NotAllowed()
    wanted = ", ".join(sorted(request.needs))
    return SetupError(f"RAG_CHAT_TARGETS: none in the chain for {request.task} can do {wanted} (can)")
