"""What the time of a request counts, and for which routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from fastapi.routing import APIRoute

from rag.api import admin, chunks, completions, documents, jobs, query, search
from rag.api.limits import InTime
from tests.e2e.conftest import OpenFake, document

TIMEOUT_S = 1.0
PAUSE_S = 0.4
PIECES = 5


async def slowly() -> AsyncIterator[bytes]:
    for number in range(PIECES):
        await asyncio.sleep(PAUSE_S)
        yield f"Line {number} of the manual.\n".encode()


async def test_a_long_upload_takes_as_long_as_its_caller_needs(fake_service: OpenFake) -> None:
    async with fake_service(request_timeout_s=TIMEOUT_S) as fake:
        caller = await fake.caller()
        started = time.monotonic()
        headers = {"Content-Type": "text/markdown"}
        accepted = await caller.send("PUT", document("a.md"), content=slowly(), headers=headers)
        took_s = time.monotonic() - started

    assert accepted.status_code == 202
    assert took_s > TIMEOUT_S


async def test_a_pause_in_an_upload_that_is_longer_than_the_limit_is_waited_for(fake_service: OpenFake) -> None:
    async with fake_service(request_timeout_s=PAUSE_S / 2) as fake:
        caller = await fake.caller()
        headers = {"Content-Type": "text/markdown"}
        accepted = await caller.send("PUT", document("a.md"), content=slowly(), headers=headers)

    assert accepted.status_code == 202


def test_every_route_of_a_tenant_has_the_limit() -> None:
    rooms = (search, query, completions, documents, chunks, jobs, admin)
    routes = [route for room in rooms for route in room.router.routes if isinstance(route, APIRoute)]

    assert len(routes) > len(rooms)
    assert [route.path for route in routes if not isinstance(route, InTime)] == []
