"""A process that makes metered calls on a pool of its own.

Run with the database's URL, the tenant's id, and the number of calls to make at once, which prints how many were let
through; with `hang` instead of a number it makes one call that never ends, and says when its model is asked.
"""

from __future__ import annotations

import asyncio
import sys
from uuid import UUID

from rag.answering.metering import size_of
from rag.calls import Usage
from rag.errors import BalanceEmpty, BudgetExceeded
from rag.store.engine import Database, open_database
from rag.values import TenantId
from tests.integration.spending import SpendingChat, attempt, call, metered, request

ASKED = "asked\n"


async def many(database: Database, tenant: TenantId, calls: int) -> None:
    size = size_of(request())
    chat = SpendingChat(attempt(usage=Usage(input_uncached=size.input, output=size.output)))
    model = metered(database, chat)
    say("ready\n")
    await asyncio.to_thread(sys.stdin.readline)
    ended = await asyncio.gather(
        *(model.complete(request(), call(tenant)) for _ in range(calls)), return_exceptions=True
    )
    refused = sum(isinstance(one, BudgetExceeded | BalanceEmpty) for one in ended)
    if refused + chat.asked != calls:
        raise AssertionError(ended)
    say(f"{chat.asked}\n")


async def hang(database: Database, tenant: TenantId) -> None:
    async for _ in metered(database, SpendingChat(gate=asyncio.Event()), grace_s=1.0).stream(
        request(), call(tenant, seconds=3.0)
    ):
        say(ASKED)


async def main(url: str, tenant: TenantId, what: str) -> None:
    async with open_database(url, size=8, timeout_s=30.0) as database:
        await (hang(database, tenant) if what == "hang" else many(database, tenant, int(what)))


def say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], TenantId(UUID(sys.argv[2])), sys.argv[3]))
