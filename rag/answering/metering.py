"""What calls of chat models may use and have used: reserved before, settled once after, however they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from rag.answering.prices import Prices, Rates, cost_of, paid_name, seller
from rag.answering.refusal import REFUSALS, refusal
from rag.answering.settlement import Settler
from rag.calls import Attempt, Call, ChatRequest, Reply, Task, Unit, prompt_tokens
from rag.errors import PriceUnknown
from rag.protocols import ChatModel
from rag.settings import EXTRACTIVE, Settings, Target
from rag.store.budgets import Verdict, reap, reserve
from rag.store.engine import Database
from rag.store.ledger import Entry, Settlement

GRACE_S = 60.0  # after a call's deadline, in which a lost database may come back for its settlement
WAIT_S = 2.0  # for the settlement, before the answer goes out without it


@dataclass(frozen=True, slots=True)
class Size:
    """The most tokens a call may read and write."""

    input: int
    output: int


def size_of(request: ChatRequest) -> Size:
    """An upper bound of the request's tokens, for any model and script."""
    return Size(prompt_tokens(request.messages), request.max_tokens)


def paid_chains(settings: Settings) -> dict[Task, tuple[Target, ...]]:
    """The targets of each task that may cost something."""
    targets = {target.name: target for target in settings.chat_targets}
    return {
        task: tuple(targets[name] for name in names if name in targets) for task, names in settings.chat_chains.items()
    }


def free_endings(settings: Settings) -> frozenset[Task]:
    """The tasks that can still be done when nothing may be spent."""
    return frozenset(task for task, names in settings.chat_chains.items() if EXTRACTIVE in names)


class MeteredChat:
    """A ChatModel that asks *chat* only for what the tenant may still use, and writes down what it used.

    What is reserved is the most that one attempt can use. What attempts that failed used before is spent as well, so
    a call that was answered by the second target may exceed the budget by what the first one read and said.
    """

    def __init__(
        self,
        chat: ChatModel,
        database: Database,
        *,
        prices: Prices,
        chains: Mapping[Task, Sequence[Target]],
        free: Collection[Task] = (),
        grace_s: float = GRACE_S,
    ) -> None:
        """Meter *chat*, whose tasks ask the targets of *chains*; those of `extractive` alone reserve nothing.

        A call of the *free* tasks that does not fit a budget goes on as unpaid: *chat* answers it without a target.
        """
        self._chat = chat
        self._database = database
        self._prices = prices
        self._chains = chains
        self._free = free
        self._sellers = {target.name: seller(target.url) for chain in chains.values() for target in chain}
        self._grace_s = grace_s
        self._settler = Settler(database, grace_s)
        self._judging: set[asyncio.Task[list[Verdict]]] = set()

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """The whole reply."""
        async with self._metered(request, call):
            return await self._chat.complete(request, call)

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """An empty piece once the call is reserved, then the reply in pieces, then whole.

        No connection is held meanwhile.
        """
        async with self._metered(request, call), aclosing(self._chat.stream(request, call)) as pieces:
            yield ""
            async for piece in pieces:
                yield piece

    async def drain(self) -> None:
        """Return when every call that has ended is settled, or the database is still lost after a while."""
        await asyncio.gather(*self._judging, return_exceptions=True)  # of calls cancelled meanwhile
        await self._settler.drain()

    @asynccontextmanager
    async def _metered(self, request: ChatRequest, call: Call) -> AsyncIterator[None]:
        size = size_of(request)
        reserved = await self._let_in(request.task, call, size)
        try:
            yield
        finally:
            if reserved or call.attempts:
                done = self._settle(request.task, call)  # goes on, though who waits for it is cancelled
                with suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), WAIT_S)

    async def _let_in(self, task: Task, call: Call, size: Size) -> bool:
        """Whether the call has reserved something; one that may not spend goes on unpaid, if its task can end so."""
        try:
            return await self._reserve(task, call, size)
        except REFUSALS as exc:
            if task not in self._free:
                raise
            call.unpaid = exc
            return False

    async def _reserve(self, task: Task, call: Call, size: Size) -> bool:
        chain = self._chains.get(task, ())
        if not chain:
            return False
        money = self._worst(chain, size)
        lasts_s = max(call.deadline.remaining_s(), 0.0) + self._grace_s
        judging = asyncio.create_task(self._judged(call, size, money=money, lasts_s=lasts_s))
        self._judging.add(judging)
        judging.add_done_callback(self._judged_at_last)
        try:
            verdicts = await asyncio.shield(judging)
        except asyncio.CancelledError:
            judging.add_done_callback(lambda _: self._settle(task, call))  # what it has reserved all the same
            raise
        if any(verdict.wanted is None for verdict in verdicts):
            unpriced = [target for target in chain if self._rates(target, size) is None]
            models = ", ".join(paid_name(self._sellers[target.name], target.model) for target in unpriced)
            raise PriceUnknown(
                f"the tenant has a budget of money, and RAG_PRICES does not say what {models} costs; add it"
            )
        if unfit := [verdict for verdict in verdicts if not verdict.fits]:
            read = replace(size, output=0)
            prompt: dict[Unit, Decimal | None] = {"tokens": Decimal(read.input), "money": self._worst(chain, read)}
            raise refusal(unfit, datetime.now(UTC), prompt=prompt)
        return bool(verdicts)

    async def _judged(self, call: Call, size: Size, *, money: Decimal | None, lasts_s: float) -> list[Verdict]:
        """The budgets' verdicts; before one refuses, what dead calls hold of them is freed."""
        tokens = size.input + size.output
        verdicts = await reserve(self._database, call.tenant_id, call.id, tokens=tokens, money=money, lasts_s=lasts_s)
        if all(verdict.fits for verdict in verdicts) or not await reap(self._database, call.tenant_id):
            return verdicts
        return await reserve(self._database, call.tenant_id, call.id, tokens=tokens, money=money, lasts_s=lasts_s)

    def _judged_at_last(self, judging: asyncio.Task[list[Verdict]]) -> None:
        self._judging.discard(judging)
        if not judging.cancelled():
            judging.exception()  # heard here, should nobody wait for it any more

    def _worst(self, chain: Sequence[Target], size: Size) -> Decimal | None:
        found = [self._rates(target, size) for target in chain]
        known = [rates.worst(size.input, size.output) for rates in found if rates is not None]
        return max(known) if len(known) == len(found) else None

    def _rates(self, target: Target, size: Size) -> Rates | None:
        paid = self._sellers[target.name]
        return self._prices.rates(target.name, paid, target.model, moment=datetime.now(UTC), input_tokens=size.input)

    def _settle(self, task: Task, call: Call) -> asyncio.Event:
        entries = tuple(map(self._entry, call.attempts))
        return self._settler.begin(call.tenant_id, Settlement(call.id, call.feature, task, entries))

    def _entry(self, attempt: Attempt) -> Entry:
        provider, usage = self._sellers.get(attempt.target, attempt.target), attempt.usage
        rates = self._prices.rates(
            attempt.target, provider, attempt.model, moment=datetime.now(UTC), input_tokens=usage.input or 0
        )
        return Entry(attempt, provider, cost_of(usage, rates))
