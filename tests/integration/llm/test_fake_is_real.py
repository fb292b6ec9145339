"""The fake speaks as the real services do: their own clients understand it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

from tests.integration.llm.fake_server import FakeServer, refusing_url
from tests.integration.llm.fake_steps import (
    Step,
    Tokens,
    azure_filter,
    azure_first,
    blackhole,
    comment,
    cut,
    done,
    eof,
    err,
    fails,
    fin,
    good,
    head200,
    ping,
    role,
    rst,
    say,
    slowhead,
    stall,
    status,
    think,
    txt,
)  # fmt: skip

pytestmark = pytest.mark.quiet

TEXT = "Fünf Werktage, 🙂 [1]."
TOKENS = Tokens(input=1000, output=7, cached=900, reasoning=2)
ASKED = [{"role": "user", "content": "How long?"}]
RICH = [comment, role(TOKENS), think(2), *good(TEXT, TOKENS)[1:]]


def openai_client(fake: FakeServer, provider: str = "p1") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=fake.url(provider), api_key="k", max_retries=0)


async def test_the_openai_sdk_reads_text_finish_and_usage(fake: FakeServer) -> None:
    fake.play("p1", RICH)

    async with openai_client(fake) as client:
        stream = await client.chat.completions.create(
            model="m", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.prompt_tokens == 1000
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 900
    assert fake.hits["p1"][0].json["stream_options"] == {"include_usage": True}
    assert fake.hits["p1"][0].headers["authorization"] == "Bearer k"


async def test_the_openai_sdk_reads_azure_frames(fake: FakeServer) -> None:
    fake.play("p1", [azure_first, role(), say("Yes"), azure_filter, fin(), done])

    async with openai_client(fake) as client:
        chunks = [chunk async for chunk in await client.chat.completions.create(model="m", messages=ASKED, stream=True)]

    assert len(chunks) == 5
    assert chunks[0].choices == []


async def test_the_openai_sdk_raises_for_errors_inside_and_outside_a_stream(fake: FakeServer) -> None:
    fake.play("p1", [role(), say("Y"), err("server")], [fails("quota")])

    async with openai_client(fake) as client:
        with pytest.raises(openai.APIError, match="The server had an error"):
            [_ async for _ in await client.chat.completions.create(model="m", messages=ASKED, stream=True)]
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=ASKED)

    assert caught.value.code == "insufficient_quota"


async def test_the_anthropic_sdk_reads_text_finish_and_usage(fake: FakeServer) -> None:
    fake.play("p1", RICH)

    async with (
        anthropic.AsyncAnthropic(base_url=fake.url("p1", "anthropic"), api_key="k", max_retries=0) as client,
        client.messages.stream(model="m", messages=ASKED, max_tokens=9) as stream,
    ):
        message = await stream.get_final_message()

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[1].text == TEXT
    assert (message.stop_reason, message.usage.input_tokens) == ("end_turn", 100)
    assert (message.usage.cache_read_input_tokens, message.usage.output_tokens) == (900, 7)


async def test_the_anthropic_sdk_raises_for_an_error_inside_a_stream(fake: FakeServer) -> None:
    fake.play("p1", [role(), err("overloaded")])

    async with anthropic.AsyncAnthropic(base_url=fake.url("p1", "anthropic"), api_key="k", max_retries=0) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            async with client.messages.stream(model="m", messages=ASKED, max_tokens=9) as stream:
                await stream.get_final_message()

    assert caught.value.body == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"},
                                 "request_id": "req_011"}  # fmt: skip


def gemini_client(fake: FakeServer) -> genai.Client:
    over = {"transport": httpx2.AsyncHTTPTransport()}  # over aiohttp it warns of what it does itself
    options = types.HttpOptions(base_url=fake.url("p1", "gemini"), async_client_args=over)
    return genai.Client(api_key="k", http_options=options)


async def test_the_google_sdk_reads_text_finish_and_usage(fake: FakeServer) -> None:
    fake.play("p1", RICH[1:])  # this service sends no comments, and its client reads none

    async with gemini_client(fake).aio as client:
        stream = await client.models.generate_content_stream(model="m", contents="How long?")
        chunks = [chunk async for chunk in stream]

    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert "".join(part.text for part in parts if not part.thought) == TEXT
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.prompt_token_count == 1000
    assert chunks[-1].usage_metadata.cached_content_token_count == 900
    assert chunks[-1].usage_metadata.candidates_token_count == 5
    assert fake.hits["p1"][0].headers["x-goog-api-key"] == "k"


async def test_the_google_sdk_raises_for_an_error_inside_a_stream(fake: FakeServer) -> None:
    fake.play("p1", [say("Y"), err("overloaded")])

    async with gemini_client(fake).aio as client:
        with pytest.raises(genai.errors.ServerError) as caught:
            async for _ in await client.models.generate_content_stream(model="m", contents="How long?"):
                pass

    assert caught.value.code == 503


async def test_ollama_lines_are_objects_of_which_the_last_is_done(fake: FakeServer) -> None:
    fake.play("p1", RICH)

    async with httpx2.AsyncClient() as http:
        response = await http.post(f"{fake.url('p1', 'ollama')}/api/chat", json={"model": "m"})

    lines = [json.loads(line) for line in response.content.split(b"\n") if line]
    assert response.headers["content-type"] == "application/x-ndjson"
    assert "".join(line["message"]["content"] for line in lines) == TEXT
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert (lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]) == (1000, 7)


async def test_scripts_follow_one_another_and_the_last_is_repeated(fake: FakeServer) -> None:
    fake.play("p1", [fails("server")], [status(429, {}, {"Retry-After": "2"})])

    async with httpx2.AsyncClient() as http:
        url = f"{fake.url('p1')}/chat/completions"
        responses = [await http.post(url, json={"n": n}) for n in range(3)]

    assert [r.status_code for r in responses] == [500, 429, 429]
    assert responses[1].headers["retry-after"] == "2"
    assert [hit.json for hit in fake.hits["p1"]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert fake.connections == 1


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([role(), cut], httpx2.RemoteProtocolError),
        ([cut], httpx2.RemoteProtocolError),
        ([role(), rst], httpx2.ReadError),
        ([rst], httpx2.ReadError),
        ([blackhole], httpx2.ReadTimeout),
        ([slowhead(0.3), *good()], httpx2.ReadTimeout),
        ([head200(), stall()], httpx2.ReadTimeout),
        ([txt(3), stall()], httpx2.ReadTimeout),
    ],
)
async def test_it_fails_as_networks_do(fake: FakeServer, script: list, error: type[Exception]) -> None:
    fake.play("p1", script)

    async with httpx2.AsyncClient(timeout=0.2) as http:
        with pytest.raises(error):
            await http.post(f"{fake.url('p1')}/chat/completions")


async def test_nobody_listens_at_the_refusing_address() -> None:
    async with httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(refusing_url())


async def test_a_body_that_ends_without_its_marker_is_whole_to_http(fake: FakeServer) -> None:
    fake.play("p1", [role(), ping, txt(2), eof])

    async with httpx2.AsyncClient() as http:
        response = await http.post(f"{fake.url('p1')}/chat/completions")

    assert b"word2" in response.content
    assert b"[DONE]" not in response.content


async def test_it_records_when_the_client_went_away(fake: FakeServer) -> None:
    fake.play("p1", [txt(1), stall()])

    async with (
        httpx2.AsyncClient() as http,
        http.stream("POST", f"{fake.url('p1')}/chat/completions") as response,
    ):
        await anext(response.aiter_raw())
        [hit] = fake.hits["p1"]
        assert hit.client_closed_at is None
        await response.aclose()
        left_at = time.monotonic()
        await asyncio.sleep(0.1)

    assert hit.client_closed_at is not None
    assert hit.client_closed_at - left_at < 0.1
    assert hit.ended_at is None
    assert hit.bytes_sent > 0


@pytest.mark.parametrize("end", [eof, cut, rst])
async def test_who_ends_a_connection_is_not_mistaken(fake: FakeServer, end: Step) -> None:
    fake.play("p1", [txt(3), end])

    async with httpx2.AsyncClient() as http:
        with suppress(httpx2.TransportError):
            await http.post(f"{fake.url('p1')}/chat/completions")
        await asyncio.sleep(0.05)

    [hit] = fake.hits["p1"]
    assert hit.client_closed_at is None
    assert (hit.ended_at is not None) == (end is eof)
