from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.integration.llm.fake_server import FakeServer, open_fake


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with open_fake() as server:
        yield server
