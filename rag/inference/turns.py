"""A cross-encoder that many ask at once: tenants take turns, and nobody waits for scores that would come too late."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice

from rag.protocols import Reranker, Score
from rag.values import Deadline, TenantId

AT_A_TIME = 2  # requests in the model: its threads begin the next while the last pairs of one are under way
FEWEST = 10  # pairs that a longer request waits for: five bring half of what fifty do (decision 0020)
FIRST_GUESS_S = 0.02  # a pair, until some were measured
MEASURED_PAIRS = 400  # the latest, by which a pair's time is judged

# Whose request this is. It goes with the request, as its id does: what is asked of a model is about texts.
asker: ContextVar[TenantId | None] = ContextVar("asker", default=None)


class SharedReranker:
    """Another reranker's scores, of as many of the first texts as the queue in front leaves time for."""

    def __init__(self, model: Reranker, clock: Callable[[], float] = time.monotonic) -> None:
        """Ask *model*; *clock* times its pairs."""
        self.name = model.name
        self.langs = model.langs
        self._model = model
        self._turns = Turns(clock)

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """What the model gives each text in order, or at once "busy" for what it would not reach."""
        scores: list[Score] = ["busy"] * len(texts)
        fit = self._turns.fitting(asker.get(), len(texts), deadline.remaining_s())
        if fit < min(FEWEST, len(texts)):
            return scores
        turn = self._turns.enter(asker.get(), fit)
        try:
            if await turn.comes(deadline):
                scores[:fit] = await self._model.score(query, texts[:fit], deadline)
        finally:
            self._turns.leave(turn, scored=sum(isinstance(score, float) for score in scores))
        return scores


@dataclass(slots=True, eq=False)
class Turn:
    """One request's turn at the model."""

    tenant_id: TenantId | None
    pairs: int
    began: float = 0.0  # in the model
    come: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def comes(self, deadline: Deadline) -> bool:
        """Whether it comes before the *deadline*; returns when that is known."""
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await self.come
        except TimeoutError:
            return False
        return True


class Turns:
    """Whose turn it is: each tenant's requests in their order, one tenant after the other."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """With nobody waiting."""
        self._clock = clock
        self._running: list[Turn] = []
        self._waiting: dict[TenantId | None, deque[Turn]] = {}  # the first tenant is the next
        self._scored_at = 0.0  # when the model last ended a request with scores
        self._busy_s, self._scored = FIRST_GUESS_S, 1.0

    def fitting(self, tenant_id: TenantId | None, pairs: int, seconds: float) -> int:
        """How many of *pairs* can be scored in so many seconds, behind what is before them.

        All where the model has nothing to do: what one slow request told is found out to be wrong by the next.
        """
        if not self._running:
            return pairs
        return max(0, int(min(pairs, seconds / self._pair_s - self._ahead(tenant_id))))

    def enter(self, tenant_id: TenantId | None, pairs: int) -> Turn:
        """A turn that comes at once, or after others."""
        turn = Turn(tenant_id, pairs)
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        self._admit()
        return turn

    def leave(self, turn: Turn, *, scored: int) -> None:
        """End *turn*, whether it came or not, after so many pairs."""
        if turn in self._running:
            self._measure(scored)
            self._running.remove(turn)
        else:
            own = self._waiting[turn.tenant_id]
            own.remove(turn)
            if not own:
                del self._waiting[turn.tenant_id]
        self._admit()

    @property
    def _pair_s(self) -> float:
        return self._busy_s / self._scored

    def _ahead(self, tenant_id: TenantId | None) -> float:
        """The pairs before the tenant's next request; of each other tenant, as many requests as of its own."""
        own = len(self._waiting.get(tenant_id, ()))
        begun = sum(turn.pairs for turn in self._running) - self._working_s() / self._pair_s
        waiting = (islice(turns, own + (other != tenant_id)) for other, turns in self._waiting.items())
        return max(0.0, begun) + sum(turn.pairs for turns in waiting for turn in turns)

    def _admit(self) -> None:
        while self._waiting and len(self._running) < AT_A_TIME:
            tenant_id, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            del self._waiting[tenant_id]
            if turns:
                self._waiting[tenant_id] = turns  # behind the others
            turn.began = self._clock()
            self._running.append(turn)
            if not turn.come.done():  # cancelled, and not yet told
                turn.come.set_result(None)

    def _working_s(self) -> float:
        """How long the model has been at what it has now, and at nothing that it gave scores for."""
        return self._clock() - max(self._scored_at, min(turn.began for turn in self._running))

    def _measure(self, scored: int) -> None:
        """Count the time in which the model did nothing else; of a request that failed or was given up, none."""
        if not scored:
            return
        self._busy_s += self._working_s()
        self._scored_at = self._clock()
        self._scored += scored
        if self._scored > MEASURED_PAIRS:
            self._busy_s, self._scored = self._busy_s / 2, self._scored / 2
