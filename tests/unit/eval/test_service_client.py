"""The service over HTTP, as seen by the suite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from eval.errors import CannotRun
from eval.service import Asker, SearchReply, Service, remote_service

FOUND = {"hits": [], "complete": True, "rerank": "full"}
HR = Asker("acme", ("hr",))


def _search(handler: Callable[[httpx2.Request], httpx2.Response]) -> SearchReply:
    async def ask() -> SearchReply:
        transport = httpx2.MockTransport(handler)
        async with httpx2.AsyncClient(base_url="http://service", transport=transport) as http:
            return await Service(http, {HR: "secret"}).search(HR, {"query": "when?"})

    return asyncio.run(ask())


def test_a_question_is_asked_with_the_key_of_its_asker() -> None:
    seen: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers["Authorization"])
        return httpx2.Response(200, json=FOUND)

    reply = _search(handler)

    assert seen == ["Bearer secret"]
    assert reply.elapsed_ms >= 0


def test_a_service_that_asks_to_slow_down_is_asked_again() -> None:
    replies = iter([httpx2.Response(429, headers={"Retry-After": "0"}), httpx2.Response(200, json=FOUND)])

    assert _search(lambda _: next(replies)).rerank == "full"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (httpx2.Response(422, text="unknown field"), "was answered with 422: unknown field"),
        (httpx2.Response(200, text="<html>"), "something else than SearchReply"),
        (httpx2.Response(200, json=[]), "something else than SearchReply"),
        (httpx2.Response(200, json={"hits": []}), "something else than SearchReply"),
    ],
)
def test_an_unusable_reply_names_the_question(response: httpx2.Response, reason: str) -> None:
    with pytest.raises(CannotRun, match=reason) as raised:
        _search(lambda _: response)

    assert "POST /v1/search as tenant acme with groups hr for 'when?'" in str(raised.value)


def test_a_service_that_is_not_there_is_said_so() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(CannotRun, match=r"http://service/? cannot be reached"):
        _search(handler)


def test_keys_are_read_by_tenant_and_groups_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps([{"tenant": "acme", "groups": ["it", "hr"], "key": "k"}]))
    wanted = Asker("acme", ("hr", "it"))

    async def open_service() -> str:
        async with remote_service("http://service", file, [wanted]) as service:
            return service.keys[wanted]

    assert asyncio.run(open_service()) == "k"


def test_a_missing_key_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("[]")

    async def open_service() -> None:
        async with remote_service("http://service", file, [HR, Asker("beta")]):
            pass

    with pytest.raises(CannotRun, match="no key for tenant acme with groups hr; tenant beta"):
        asyncio.run(open_service())
