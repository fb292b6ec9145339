"""Which targets a request may go to, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rag.calls import ChatRequest, Task, prompt_tokens
from rag.errors import ContextLength, NotAllowed, RagError, SetupError, Tried
from rag.llm.breaker import MEANINGS, State
from rag.llm.hop import Hop
from rag.llm.reasons import SAID, Skip, skipped

OUT: frozenset[State] = frozenset({"open", "disabled"})


@dataclass(frozen=True, slots=True)
class Chain:
    """The targets of a task in order; `extractive` when the sentences of the sources end it."""

    hops: tuple[Hop, ...]
    extractive: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A chain as far as one request may take it.

    `first` is the target that the settings want first, None when that is the extractive model; `skipped` are those
    that may not or cannot serve the request, `passed_by` those that have too much to do and are asked last.
    """

    hops: tuple[Hop, ...]
    extractive: bool
    first: Hop | None
    skipped: tuple[Tried, ...] = ()
    passed_by: tuple[Hop, ...] = ()
    refusal: RagError | None = None  # a budget's: nothing may be spent

    def degraded(self, hop: Hop | None) -> bool:
        """Whether an answer of *hop*, None being the extractive model, is one of a lesser model."""
        return self.first is not None and (hop is None or hop.target.tier > self.first.target.tier)

    def unpaid(self, refusal: RagError) -> Route:
        """What is left of it when a budget refuses; where there is nobody to ask, no budget is in the way."""
        if not self.hops:
            return self
        left_out = (*self.skipped, *(skipped(hop, "budget") for hop in self.hops))
        return replace(self, hops=(), skipped=left_out, refusal=refusal)


class Lanes:
    """The chains by task."""

    def __init__(self, chains: Mapping[Task, Chain]) -> None:
        """Choose among *chains*."""
        self._chains = chains

    def states(self) -> dict[str, State]:
        """The state of each target's breaker, by name."""
        hops = (hop for chain in self._chains.values() for hop in chain.hops)
        return {hop.target.name: hop.breaker.state for hop in hops}

    def means(self) -> dict[str, str]:
        """What the state of each target means, by name, with its last failure while it is failing."""
        hops = {hop.target.name: hop for chain in self._chains.values() for hop in chain.hops}
        return {name: MEANINGS[hop.breaker.state] + _failing(hop) for name, hop in hops.items()}

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
        tokens = prompt_tokens(request.messages)
        unfit = {hop: why for hop in chain.hops if (why := _unfit(hop, request, tokens))}
        fitting = [hop for hop in chain.hops if hop not in unfit]
        left_out = tuple(skipped(hop, why) for hop, why in unfit.items())
        extractive = chain.extractive and not request.needs
        if not fitting and not extractive:
            raise _nobody(request, left_out)
        # passed by, but for batch work: local ones that are busy, or would read for long; the sort is stable
        late = [hop for hop in fitting if not request.batch and _overflows(hop, tokens)]
        order = sorted(fitting, key=late.__contains__)
        first = chain.hops[0] if chain.hops else None
        return Route(tuple(order), extractive, first, left_out, tuple(late))


def _failing(hop: Hop) -> str:
    failing = hop.breaker.state in ("open", "half_open") and hop.last_failure
    return f"; its last failure: {SAID[hop.last_failure]}" if failing else ""


def _unfit(hop: Hop, request: ChatRequest, tokens: int) -> Skip | None:
    """Why the target may not read the request or cannot serve it; None when it can."""
    if not request.tags <= hop.target.allows:
        return "data_class"
    if not request.needs <= hop.target.can:
        return "capability"
    return "context_length" if tokens + request.max_tokens > hop.target.context_tokens else None


def _overflows(hop: Hop, tokens: int) -> bool:
    target = hop.target
    busy = hop.under_way >= target.overflow_depth or tokens > target.overflow_tokens
    return target.lane == "local" and busy


def _nobody(request: ChatRequest, left_out: Sequence[Tried]) -> RagError:
    """The error for a request that no target is fit for: of the one that comes nearest."""
    reasons = {each.reason for each in left_out}
    tried = tuple(left_out)
    if "context_length" in reasons:
        return ContextLength(tried=tried)
    if request.tags and "capability" not in reasons:
        classes = " and ".join(sorted(request.tags))
        read = "no chat model of the chain may read that; see allows in RAG_CHAT_TARGETS"
        return NotAllowed(f"the sources or earlier answers are of the class {classes}, and {read}", tried=tried)
    wanted = ", ".join(sorted(request.needs))
    return SetupError(f"RAG_CHAT_TARGETS: none in the chain for {request.task} can do {wanted} (can)", tried=tried)
