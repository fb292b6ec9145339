"""`python -m tests.integration.cache_asker URL TENANT QUESTION`: ask once, and print what the cache did, and calls."""

from __future__ import annotations

import asyncio
import sys
from uuid import UUID

from rag.store.engine import open_database
from rag.values import TenantId
from tests.integration.caching import ScriptedChat, answerer, ask


async def main(url: str, tenant: str, question: str) -> None:
    chat = ScriptedChat()
    async with open_database(url, size=1, timeout_s=10.0) as database:
        answer = await ask(answerer(database, chat), TenantId(UUID(tenant)), question)
    sys.stdout.write(f"{answer.cache} {len(chat.requests)}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
