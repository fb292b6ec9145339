from __future__ import annotations

import asyncio

import pytest

import ingest.run as run
from ingest.run import patiently
from rag.errors import StoreUnavailable


@pytest.fixture(autouse=True)
def short_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "OUTAGE_S", 0.1)
    monkeypatch.setattr(run, "LOOK_S", 0.001)


async def test_long_work_that_loses_the_database_once_is_done_again() -> None:
    lost = iter([True, False])

    async def work() -> str:
        if next(lost):
            await asyncio.sleep(0.2)
            raise StoreUnavailable("restarted")
        return "done"

    assert await patiently(work) == "done"


async def test_a_database_that_stays_away_is_told() -> None:
    async def work() -> None:
        raise StoreUnavailable("away")

    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable, match="away"):
            await patiently(work)
