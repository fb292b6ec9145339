"""What `rag doctor` finds out about a chat target, and that it asks for one token."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from rag.llm.checking import check_target
from rag.llm.endpoint import Endpoint, open_http
from rag.settings import Target
from tests.integration.llm.fake_server import FakeServer, refusing_url
from tests.integration.llm.fake_steps import Script, blackhole, cut, done, eof, fails, fin, good, role

pytestmark = pytest.mark.quiet

DIALECTS = ["openai", "anthropic", "gemini", "ollama"]
LIMITS = ("max_completion_tokens", "max_tokens", "maxOutputTokens", "num_predict")
KEY = "sk-secret-1234567890"


async def fault(fake: FakeServer, script: Script, **facts: Any) -> str | None:
    fake.play("p1", script)
    dialect = facts.get("dialect", "openai")
    own = {"name": "p1", "dialect": dialect, "url": fake.url("p1", dialect), "model": "model-1", **facts}
    async with open_http() as http:
        return await check_target(Endpoint(Target(**own), SecretStr(KEY), http))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_target_that_answers_is_fine_and_was_asked_for_one_token(fake: FakeServer, dialect: str) -> None:
    found = await fault(fake, good(), dialect=dialect)

    [hit] = fake.hits["p1"]
    asked = str(hit.json)
    assert found is None
    assert any(
        f"'{name}': 1" in asked for name in ("max_completion_tokens", "max_tokens", "maxOutputTokens", "num_predict")
    )


async def test_an_answer_cut_after_its_one_token_or_empty_is_fine(fake: FakeServer) -> None:
    assert await fault(fake, [role(), fin("length"), done, eof]) is None
    assert await fault(fake, [role(), fin("stop"), done, eof]) is None


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("auth", "check p1 in RAG_CHAT_KEYS"),
        ("region", "check p1 in RAG_CHAT_KEYS, its account and region"),
        ("model", "it knows no model model-1"),
        ("quota", "no credit or quota left"),
        ("rate", "takes no more requests now"),
        ("malformed", "check the dialect openai"),
        ("server", "it fails (server_error)"),
    ],
)
async def test_a_refusal_names_what_is_wrong(fake: FakeServer, kind: str, said: str) -> None:
    found = await fault(fake, [fails(kind)])

    assert found is not None
    assert said in found
    assert KEY not in found


async def test_a_wrong_address_is_named(fake: FakeServer) -> None:
    nobody = refusing_url()

    found = await fault(fake, good(), url=nobody)

    assert found is not None
    assert f"nothing answers at {nobody}" in found


async def test_a_silent_target_is_given_up(fake: FakeServer) -> None:
    found = await fault(fake, [blackhole], first_content_timeout_s=0.3)

    assert found == "no word within 0.3 s; is model-1 still loading?"


async def test_a_target_that_breaks_off_is_not_fine(fake: FakeServer) -> None:
    assert await fault(fake, [role(), cut]) == "it fails (incomplete); key and model may be right"
