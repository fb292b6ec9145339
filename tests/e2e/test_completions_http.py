"""The official OpenAI client against this service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from rag.errors import BudgetExceeded, UpstreamIncomplete
from tests.e2e.conftest import Caller, OpenFake
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.fakes import FakeChat

REFUND = "How long does a refund take?"


def client_of(caller: Caller) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{caller.http.base_url}/v1", api_key=caller.key, max_retries=0)


@pytest_asyncio.fixture
async def client(acme: Caller) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(acme) as opened:
        yield opened


def asked(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "rag", "messages": [{"role": "user", "content": question}], **more}


async def test_a_completion_is_the_cited_answer_of_the_documents(client: openai.AsyncOpenAI, acme: Caller) -> None:
    answer = await acme.query(REFUND)

    completion = await client.chat.completions.create(**asked(REFUND))

    [choice] = completion.choices
    assert choice.message.content == answer["answer"]
    assert (choice.message.role, choice.finish_reason, completion.model) == ("assistant", "stop", "rag")
    assert choice.message.model_extra is not None
    assert choice.message.model_extra["citations"] == answer["citations"]
    assert choice.message.model_extra["status"] == "answered"
    cited = {citation["n"] for citation in answer["citations"]}
    assert cited <= {source["n"] for source in choice.message.model_extra["sources"]}
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


async def test_a_streamed_completion_is_the_same_answer(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**asked(REFUND))

    stream = await client.chat.completions.create(**asked(REFUND, stream=True, stream_options={"include_usage": True}))
    chunks = [chunk async for chunk in stream]

    *pieces, last, used = chunks
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole.choices[0].message.content
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[0].choices[0].delta.model_extra is not None
    assert pieces[0].choices[0].delta.model_extra["sources"] == whole.choices[0].message.model_extra["sources"]  # type: ignore[index]
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].delta.model_extra["citations"] == whole.choices[0].message.model_extra["citations"]  # type: ignore[index]
    assert (used.choices, used.usage) == ([], whole.usage)
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert len(pieces) > 2


async def test_a_stream_tells_no_usage_unless_asked(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**asked(REFUND, stream=True))

    chunks = [chunk async for chunk in stream]

    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


async def test_the_clients_own_streaming_gathers_text_and_citations(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(**asked(REFUND)) as stream:
        gathered = await stream.get_final_completion()

    message = gathered.choices[0].message
    assert "five business days" in (message.content or "")
    assert message.model_extra is not None
    assert message.model_extra["citations"][0]["external_id"] == "guides/refunds.md"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_question_without_evidence_is_a_completion_that_says_so(acme: Caller, stream: bool) -> None:
    response = await acme.send("POST", "/v1/chat/completions", json=asked("What does HLY-4039 mean?", stream=stream))

    assert response.status_code == 200
    assert "The documents do not answer this question." in response.text
    assert '"finish_reason":"stop"' in response.text.replace(" ", "")
    assert response.text.endswith("data: [DONE]\r\n\r\n") == stream


async def test_a_phrase_that_no_chunk_has_is_named_beside_every_answer(
    client: openai.AsyncOpenAI, acme: Caller
) -> None:
    asks = '"takes ninety days" refund'

    whole = await client.chat.completions.create(**asked(asks))
    stream = await client.chat.completions.create(**asked(asks, stream=True))
    *_, last = [chunk async for chunk in stream]

    named = ["takes ninety days"]
    assert whole.choices[0].message.content == (
        'The documents do not answer this question. No passage has "takes ninety days" to the letter.'
    )
    assert whole.choices[0].message.model_extra["missing_phrases"] == named  # type: ignore[index]
    assert last.choices[0].delta.model_extra["missing_phrases"] == named  # type: ignore[index]
    assert (await acme.query(asks))["missing_phrases"] == named
    assert (await acme.query(REFUND))["missing_phrases"] == []


async def test_a_tenant_is_answered_from_its_own_documents(rival: Caller, client: openai.AsyncOpenAI) -> None:
    async with client_of(rival) as other:
        theirs = await other.chat.completions.create(**asked(REFUND))
        secret = await client.chat.completions.create(**asked("What does code RVL-77 open?"))

    assert "ninety days" in (theirs.choices[0].message.content or "")
    assert secret.choices[0].message.content == "The documents do not answer this question."


async def test_filters_and_dates_narrow_what_is_answered_from(client: openai.AsyncOpenAI) -> None:
    nowhere = {"field": "doc_type", "op": "eq", "value": "none"}
    past = {"as_of": "2024-06-01", "top_k": 3}

    nothing = await client.chat.completions.create(**asked(REFUND), extra_body={"filters": nowhere})
    then = await client.chat.completions.create(**asked("What is the hotel allowance?"), extra_body=past)

    assert nothing.choices[0].message.model_extra["status"] == "no_evidence"  # type: ignore[index]
    assert "120 EUR" in (then.choices[0].message.content or "")


async def test_the_one_model_is_listed_and_found(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["rag"]
    assert (await client.models.retrieve("rag")).owned_by == "rag"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-4o")


async def test_an_unknown_model_is_not_found(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(**asked(REFUND) | {"model": "gpt-4o"})

    assert (caught.value.code, caught.value.param, caught.value.type) == ("not_found", "model", "invalid_request_error")


async def test_an_unknown_key_is_refused_in_openais_words(acme: Caller) -> None:
    for path in ("/v1/models", "/v1/models/rag", "/v1/chat/completions"):
        method = "POST" if "chat" in path else "GET"
        response = await acme.http.request(method, path, headers={"Authorization": "Bearer sk-1"}, json=asked(REFUND))

        error = response.json()["error"]
        assert (response.status_code, error["code"], error["type"]) == (401, "unauthenticated", "authentication_error")
        assert error["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"stop": ["."]}, "stop"),
        ({"top_p": 0.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 9000}, "max_completion_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"seed": 1}, "seed"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"messages": [{"role": "user", "content": "word " * 1000}]}, "messages"),
        ({"filters": {"field": "acl", "op": "eq", "value": "hr"}}, None),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_supported_is_refused_by_name(
    acme: Caller, more: dict[str, Any], param: str | None, stream: bool
) -> None:
    response = await acme.send("POST", "/v1/chat/completions", json=asked(REFUND, stream=stream) | more)

    error = response.json()["error"]
    assert response.status_code in {413, 422}
    assert error["code"] in {"invalid_request", "invalid_input", "too_large"}
    assert error["type"] == "invalid_request_error"
    assert param is None or error["param"] == param
    assert error["message"]


async def test_a_body_over_the_limit_is_refused_in_openais_words(fake_service: OpenFake) -> None:
    async with fake_service(max_body_bytes=2000) as fake:
        caller = await fake.caller()

        response = await caller.send("POST", "/v1/chat/completions", json=asked("word " * 1000))

    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "turns", [[{"role": "user", "content": "x"}] * 100_000, [{"role": "system", "content": "word " * 200_000}]]
)
async def test_a_conversation_without_end_is_refused_by_name(acme: Caller, turns: list[dict[str, str]]) -> None:
    body = {"model": "rag", "messages": [*turns, {"role": "user", "content": REFUND}]}

    response = await acme.send("POST", "/v1/chat/completions", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (413, "too_large", "messages")


async def test_what_says_nothing_new_is_taken(client: openai.AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(
        **asked(REFUND), n=1, tools=[], top_p=1, stop=None, user="u1", metadata={"a": "b"}, logprobs=False
    )

    assert "five business days" in (completion.choices[0].message.content or "")


async def test_limits_turns_and_rules_reach_the_model(fake_service: OpenFake) -> None:
    chat = FakeChat("Yes. [1]")
    turns = [
        {"role": "system", "content": "Be formal."},
        {"role": "user", "content": [{"type": "text", "text": "Are fees kept?"}]},
        {"role": "assistant", "content": "They are [1].", "refusal": None, "citations": []},
        {"role": "user", "content": QUESTION},
    ]
    async with fake_service(chat) as fake:
        caller = await with_a_document(fake)
        async with client_of(caller) as client:
            await client.chat.completions.create(
                model="rag",
                messages=turns,
                max_completion_tokens=77,
                temperature=0.5,  # type: ignore[arg-type]
            )

    [request] = chat.requests
    assert (request.max_tokens, request.temperature, request.question) == (77, 0.5, QUESTION)
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[0].text.endswith("Be formal.")
    assert [message.text for message in request.messages[1:3]] == ["Are fees kept?", "They are."]
    assert chat.calls[0].feature == "completions"


async def test_usage_is_that_of_the_model(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat("A refund takes five days. ", "[1]")) as fake:
        caller = await with_a_document(fake)
        async with client_of(caller) as client:
            completion = await client.chat.completions.create(**asked(QUESTION))

    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 2)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_fails_before_the_first_words_has_its_own_status(fake_service: OpenFake, stream: bool) -> None:
    async with fake_service(FakeChat(error=BudgetExceeded(retry_after_s=30))) as fake:
        caller = await with_a_document(fake)

        response = await caller.send("POST", "/v1/chat/completions", json=asked(QUESTION, stream=stream))

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"]) == (429, "budget_exceeded", "insufficient_quota")
    assert response.headers["retry-after"] == "30"


async def test_what_breaks_off_after_the_first_words_ends_with_an_error_and_not_as_done(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat("A refund ", "takes ", error=UpstreamIncomplete())) as fake:
        caller = await with_a_document(fake)
        response = await caller.send("POST", "/v1/chat/completions", json=asked(QUESTION, stream=True))
        async with client_of(caller) as client:
            stream = await client.chat.completions.create(**asked(QUESTION, stream=True))
            with pytest.raises(openai.APIError) as caught:
                [chunk async for chunk in stream]

    frames = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert json.loads(frames[-1])["error"]["code"] == "upstream_incomplete"
    assert "[DONE]" not in frames
    assert '"finish_reason": "stop"' not in response.text
    assert caught.value.code == "upstream_incomplete"


@pytest.mark.quiet
async def test_a_model_that_dawdles_is_given_up(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat("A ", "refund", delay_s=0.4), request_timeout_s=0.6) as fake:
        caller = await with_a_document(fake)

        plain = await caller.send("POST", "/v1/chat/completions", json=asked(QUESTION))
        streamed = await caller.send("POST", "/v1/chat/completions", json=asked(QUESTION, stream=True))

    assert (plain.status_code, plain.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert '"code": "deadline_exceeded"' in streamed.text
