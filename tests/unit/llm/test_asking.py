"""How each dialect is asked."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from rag.calls import ChatRequest, Message
from rag.errors import SetupError
from rag.llm.failures import Failure
from tests.unit.llm.wire import DIALECTS, KEY, REQUEST, endpoint

TALK = (
    Message("system", "Be brief."),
    Message("user", "One?"),
    Message("assistant", "1."),
    Message("system", "Cite."),
    Message("user", "Two?"),
)
TALKING = ChatRequest("answer", "Two?", (), TALK, max_tokens=64, temperature=0.5)
IN_JSON = ChatRequest("rewrite", "Two?", (), TALK, max_tokens=64, needs=frozenset({"json"}))


async def asked(dialect: str, request: ChatRequest = TALKING, key: str = KEY, **more: object) -> httpx2.Request:
    """The request that a provider sends."""
    sent: list[httpx2.Request] = []

    def respond(got: httpx2.Request) -> httpx2.Response:
        sent.append(got)
        return httpx2.Response(500)

    with pytest.raises(Failure):
        await anext(endpoint(dialect, respond, key, **more).events(request))
    [only] = sent
    return only


async def body(dialect: str, request: ChatRequest = TALKING, **more: object) -> dict[str, Any]:
    return json.loads((await asked(dialect, request, **more)).content)


async def test_openai_is_asked_for_a_stream_with_usage() -> None:
    assert await body("openai") == {
        "model": "m",
        "messages": [{"role": message.role, "content": message.text} for message in TALK],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 64,
        "temperature": 0.5,
    }


async def test_anthropic_has_the_instructions_beside_the_conversation() -> None:
    assert await body("anthropic") == {
        "model": "m",
        "system": "Be brief.\n\nCite.",
        "messages": [
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": "1."},
            {"role": "user", "content": "Two?"},
        ],
        "max_tokens": 64,
        "temperature": 0.5,
        "stream": True,
    }


async def test_gemini_has_parts_and_calls_the_assistant_model() -> None:
    assert await body("gemini") == {
        "systemInstruction": {"parts": [{"text": "Be brief.\n\nCite."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "One?"}]},
            {"role": "model", "parts": [{"text": "1."}]},
            {"role": "user", "parts": [{"text": "Two?"}]},
        ],
        "generationConfig": {"maxOutputTokens": 64, "temperature": 0.5},
    }


async def test_ollama_is_told_how_much_it_has_to_read() -> None:
    assert await body("ollama", context_tokens=16384) == {
        "model": "m",
        "messages": [{"role": message.role, "content": message.text} for message in TALK],
        "stream": True,
        "options": {"num_predict": 64, "num_ctx": 16384, "temperature": 0.5},
    }


async def test_json_is_asked_for_in_each_dialects_way() -> None:
    assert (await body("openai", IN_JSON))["response_format"] == {"type": "json_object"}
    assert (await body("anthropic", IN_JSON))["system"].endswith("one JSON object and nothing else.")
    assert (await body("gemini", IN_JSON))["generationConfig"]["responseMimeType"] == "application/json"
    assert (await body("ollama", IN_JSON))["format"] == "json"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_that_refuses_a_temperature_gets_none(dialect: str) -> None:
    assert "temperature" not in json.dumps(await body(dialect, quirks=["no_temperature"]))


async def test_a_service_that_refuses_to_be_asked_for_usage_is_not() -> None:
    assert "stream_options" not in await body("openai", quirks=["no_usage"])


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"url": "https://api.openai.com/v1"}, "max_completion_tokens"),
        ({"url": "https://mine.openai.azure.com/openai/v1"}, "max_completion_tokens"),
        ({"url": "https://gate/v1", "quirks": ["max_completion_tokens"]}, "max_completion_tokens"),
        ({"url": "https://notopenai.com/v1"}, "max_tokens"),
        ({"url": "http://localhost:8000/v1"}, "max_tokens"),
    ],
)
async def test_the_limit_has_the_name_that_is_not_overlooked(more: dict[str, Any], name: str) -> None:
    sent = await body("openai", **more)

    assert {field: value for field, value in sent.items() if field.startswith("max_")} == {name: 64}


@pytest.mark.parametrize(
    ("dialect", "url", "expected"),
    [
        ("openai", "https://h/v1", "https://h/v1/chat/completions"),
        ("openai", "https://h/api/v1/", "https://h/api/v1/chat/completions"),
        ("openai", "https://h", "https://h/v1/chat/completions"),
        ("openai", "https://h/openai/deployments/d?api-version=2024-10-21",
         "https://h/openai/deployments/d/chat/completions?api-version=2024-10-21"),
        ("anthropic", "https://h", "https://h/v1/messages"),
        ("anthropic", "https://h/gate/v1", "https://h/gate/v1/messages"),
        ("gemini", "https://h", "https://h/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "https://h/v1", "https://h/v1/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "https://h/x?a=b", "https://h/x/v1beta/models/m:streamGenerateContent?a=b&alt=sse"),
        ("ollama", "http://h:11434", "http://h:11434/api/chat"),
        ("ollama", "http://h:11434/api", "http://h:11434/api/chat"),
    ],
)  # fmt: skip
async def test_addresses_may_end_in_a_version_or_not(dialect: str, url: str, expected: str) -> None:
    assert (await asked(dialect, url=url)).url == expected


async def test_gemini_has_the_model_in_the_address() -> None:
    request = await asked("gemini", model="tunedModels/mine?x")

    assert request.url.raw_path == b"/v1beta/tunedModels/mine%3Fx:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("dialect", "more", "header", "value"),
    [
        ("openai", {}, "authorization", f"Bearer {KEY}"),
        ("openai", {"quirks": ["api_key_header"]}, "api-key", KEY),
        ("anthropic", {}, "x-api-key", KEY),
        ("gemini", {}, "x-goog-api-key", KEY),
        ("ollama", {}, "authorization", f"Bearer {KEY}"),
    ],
)
async def test_the_key_is_in_one_header_and_nowhere_else(
    dialect: str, more: dict[str, Any], header: str, value: str
) -> None:
    with_key, without = await asked(dialect, **more), await asked(dialect, key="", **more)

    assert with_key.headers[header] == value
    assert [name for name, text in with_key.headers.items() if KEY in text] == [header]
    assert header not in without.headers
    assert KEY not in str(with_key.url)
    assert KEY.encode() not in with_key.content


async def test_anthropic_is_told_the_version_of_its_interface() -> None:
    assert (await asked("anthropic", key="")).headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_half_a_character_is_sent_as_a_question_mark(dialect: str) -> None:
    request = ChatRequest("answer", "", (), (Message("user", "a\ud83db é"),), max_tokens=1)

    sent = (await asked(dialect, request)).content

    assert "a?b é".encode() in sent


@pytest.mark.parametrize("key", ["hunter2\n", "hunter2 x", "hünter2"])
def test_a_key_that_no_header_carries_is_refused_unsaid(key: str) -> None:
    with pytest.raises(SetupError, match="the key of p1 has characters") as caught:
        endpoint("openai", lambda _: httpx2.Response(500), key)

    assert "nter2" not in caught.value.detail


def test_no_provider_shows_its_key() -> None:
    asked_one = endpoint("openai", lambda _: httpx2.Response(500))

    assert KEY not in repr(asked_one)
    assert REQUEST.question not in repr(asked_one)
