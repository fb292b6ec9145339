"""What a chain that ends in the sentences of the sources does with a budget that is used up."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg
import pytest

from rag.answering.metering import MeteredChat, size_of
from rag.answering.prices import Prices
from rag.calls import Period, Usage
from rag.errors import PriceUnknown
from rag.llm.events import End, Text
from rag.llm.failover import FailoverChat
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.store.engine import Database
from rag.telemetry import Metrics
from rag.values import TenantId
from tests.integration.spending import budget, call, give, ledger, metered, request, reservations, reserved_by
from tests.unit.llm.scripted import Scripted, Sentences

SIZE = size_of(request())
WHOLE = End("stop", Usage(SIZE.input, 0, 0, SIZE.output, 0))  # all that a call may use


def metered_chain(database: Database, target: Scripted, **changed: object) -> MeteredChat:
    """The target "main", behind it the sentences."""
    lanes = Lanes({"answer": Chain((Hop(target),), extractive=True)})  # type: ignore[arg-type]
    chat = FailoverChat(lanes, Sentences(), Metrics())
    return metered(database, chat, **{"free": {"answer"}, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("period", ["day", "prepaid"])
async def test_of_fifty_calls_at_once_on_a_budget_for_five_the_model_answers_five_and_the_sentences_the_rest(
    database: Database, tenant: TenantId, owner: psycopg.Connection, period: Period
) -> None:
    await give(database, tenant, 5 * reserved_by(request()) + 100, period=period)
    target = Scripted("main", (Text("Yes. [1]"), WHOLE))
    chat = metered_chain(database, target)

    replies = await asyncio.gather(*(chat.complete(request(), call(tenant)) for _ in range(50)))

    reasons = [reply.degraded.reason for reply in replies if reply.degraded]
    spent = await budget(database, tenant, period)
    assert Counter(reply.target for reply in replies) == {"main": 5, "extractive": 45}
    assert reasons == ["budget"] * 45
    assert len(target.hits) == 5
    assert (spent.spent, spent.reserved) == (5 * reserved_by(request()), 0)
    assert Counter(ledger(owner, tenant, "target")) == {("main",): 5, ("extractive",): 45}
    assert reservations(owner, tenant) == 0


async def test_what_was_degraded_says_when_the_budget_is_renewed(database: Database, tenant: TenantId) -> None:
    await give(database, tenant, reserved_by(request()))
    chat = metered_chain(database, Scripted("main", (Text("Yes. [1]"), WHOLE)))
    await chat.complete(request(), call(tenant))

    why = (await chat.complete(request(), call(tenant))).degraded

    resets_at = (await budget(database, tenant)).resets_at
    assert why is not None
    assert resets_at is not None
    assert (why.reason, why.resets_at) == ("budget", resets_at)
    assert why.detail.endswith(f"the next day begins at {resets_at:%Y-%m-%d}T00:00:00Z")
    assert why.retry_after_s is not None


async def test_a_price_that_nobody_knows_is_said_and_not_hidden_behind_the_sentences(
    database: Database, tenant: TenantId
) -> None:
    await give(database, tenant, 50, "money", "month")
    chat = metered_chain(database, Scripted("main"), prices=Prices({}))

    with pytest.raises(PriceUnknown):
        await chat.complete(request(), call(tenant))
