"""Every documented error, as a response and inside a stream, is the failure it means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rag.calls import Message, Usage
from rag.llm.complaints import complaint_of
from rag.llm.failures import Complaint, Reason, by_status, classify
from tests.integration.llm.fake_errors import ERRORS
from tests.integration.llm.fake_rendering import RENDERINGS
from tests.integration.llm.fake_steps import done, err, role, say
from tests.unit.llm.wire import DIALECTS, KEY, QUESTION, REQUEST, failing, rendered

MEANINGS: dict[str, Reason] = {
    "auth": "config",
    "region": "config",
    "model": "config",
    "context_length": "context_length",
    "policy": "content_filtered",
    "rate": "rate_limited",
    "quota": "quota",
    "spend_cap": "quota",
    "server": "server_error",
    "overloaded": "overloaded",
    "malformed": "rejected",
}
TABLE = [(dialect, kind) for dialect in DIALECTS for kind in ERRORS[dialect]]
IN_STREAM = [(d, k) for d, k in TABLE if d != "ollama" and k not in {"context_length", "malformed"}]
IN_STREAM.remove(("anthropic", "quota"))  # only the status 400 tells this from a sentence


@pytest.mark.parametrize(("dialect", "kind"), TABLE)
async def test_a_refused_request_is_classified(dialect: str, kind: str) -> None:
    status, content_type, body = RENDERINGS[dialect](dialect).failed(kind)

    failure = await failing([body], dialect, status=status, headers={"Content-Type": content_type})

    assert failure.reason == MEANINGS[kind]
    assert failure.status == status


@pytest.mark.parametrize(("dialect", "kind"), IN_STREAM)
async def test_an_error_inside_a_stream_is_classified_by_its_body(dialect: str, kind: str) -> None:
    failure = await failing([rendered(dialect, [role(), err(kind)])], dialect)

    assert failure.reason == MEANINGS[kind]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_error_inside_a_stream_keeps_the_usage_so_far(dialect: str) -> None:
    failure = await failing([rendered(dialect, [role(), say("Fünf"), err("server"), done])], dialect)

    assert failure.reason == "server_error"
    assert failure.usage == {"anthropic": Usage(12, 0, 0), "gemini": Usage(12, 0, 0, 1)}.get(dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_error_body_of_a_status_200_is_no_stream_but_an_error(dialect: str) -> None:
    _, body = ERRORS[dialect]["rate"]

    failure = await failing([json.dumps(body).encode()], dialect, headers={"Content-Type": "application/json"})

    # Ollama's words say nothing of themselves, and its status is lost
    assert failure.reason == ("server_error" if dialect == "ollama" else "rate_limited")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b"{}", b""])
async def test_a_page_instead_of_a_stream_is_malformed(dialect: str, body: bytes) -> None:
    failure = await failing([body], dialect, headers={"Content-Type": "text/html"})

    assert failure.reason == "malformed"


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        # OpenAI and compatible
        ({"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted"}}, 429, "quota"),
        ({"error": {"type": "insufficient_quota", "code": "project_spend_limit_exceeded"}}, 429, "quota"),
        ({"error": {"type": "requests", "code": "slow_down"}}, 429, "rate_limited"),
        ({"error": {"type": "invalid_request_error", "code": "invalid_prompt"}}, 400, "content_filtered"),
        ({"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400,
         "content_filtered"),
        ({"error": {"code": None, "type": "service_unavailable_error"}}, 200, "overloaded"),
        ({"error": {"message": "x", "type": "BadRequestError", "code": 400}}, 200, "rejected"),  # vLLM
        ({"object": "error", "message": "x", "type": "BadRequestError", "code": 400}, 400, "rejected"),  # vLLM
        ({"error": {"code": 400, "type": "exceed_context_size_error"}}, 400, "context_length"),  # llama.cpp
        ({"error": {"code": 429, "message": "Provider returned error"}}, 200, "rate_limited"),  # OpenRouter
        ({"error": {"code": "502", "message": "x"}}, 200, "server_error"),
        ({"error": {"code": 403, "message": "Your input was flagged"}}, 403, "content_filtered"),
        ({"error": {"code": 402, "message": "Insufficient credits"}}, 402, "quota"),
        ({"error": {"type": "tokens", "code": "rate_limit_exceeded",
          "message": "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41222."}}, 429,
         "context_length"),
        ({"error": {"type": "tokens", "code": "rate_limit_exceeded",
          "message": "Rate limit reached for m: Limit 30,000, Used 1, Requested 30,001."}}, 429, "context_length"),
        ({"error": {"type": "tokens", "code": "rate_limit_exceeded",
          "message": "Rate limit reached for m: Limit 30000, Used 29000, Requested 2000."}}, 429, "rate_limited"),
        # Anthropic
        ({"type": "error", "error": {"type": "overloaded_error"}}, 200, "overloaded"),
        ({"type": "error", "error": {"type": "billing_error"}}, 402, "quota"),
        ({"type": "error", "error": {"type": "conflict_error"}}, 409, "conflict"),
        ({"type": "error", "error": {"type": "request_too_large"}}, 413, "context_length"),
        ({"type": "error", "error": {"type": "timeout_error"}}, 504, "timeout"),
        ({"type": "error", "error": {"type": "invalid_request_error",
          "message": "You have reached your specified API usage limits."}}, 400, "quota"),
        # Gemini
        ([{"error": {"code": 503, "status": "UNAVAILABLE"}}], 503, "overloaded"),
        ({"error": {"code": 504, "status": "DEADLINE_EXCEEDED"}}, 504, "timeout"),
        ({"error": {"code": 403, "status": "PERMISSION_DENIED"}}, 403, "config"),
        ({"error": {"code": 401, "status": "UNAUTHENTICATED"}}, 401, "config"),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
            {"reason": "RATE_LIMIT_EXCEEDED"}, {"violations": [{"quotaId": "RequestsPerDay"}]}]}}, 429, "quota"),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, 429, "rate_limited"),
        # whoever
        ({"detail": "Not Found"}, 404, "config"),
        ({"message": "Forbidden"}, 403, "config"),
        ({"error": {"message": "invalid_api_key overloaded context length"}}, 500, "server_error"),
        ({"error": {"message": "credit balance is too low"}}, 500, "server_error"),
        ({"error": True}, 200, "server_error"),
        ("Bad Gateway", 502, "server_error"),
        (None, 413, "context_length"),
        (None, 529, "overloaded"),
        (None, 524, "timeout"),
        (None, 418, "rejected"),
        (None, 302, "config"),
    ],
)  # fmt: skip
def test_the_body_counts_before_the_status(body: Any, status: int, reason: Reason) -> None:
    assert classify(complaint_of(body), status) == reason


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("What is the usage limit?", "Invalid input: 'What is the usage limit?'"),
        ("api key", "Unexpected text: API KEY"),
        ("How do we raise the\nspend  limit of a card?", "cannot parse: the spend limit of a card"),
        ("When is a credit\u00a0balance is too low?", "bad: a credit balance is too low"),
    ],
)
def test_a_question_that_is_repeated_says_nothing_of_the_target(asked: str, message: str) -> None:
    complaint = complaint_of({"error": {"type": "invalid_request_error", "message": message}})

    assert classify(complaint, 400, asked=asked) == "rejected"
    assert classify(complaint, 400, asked="How long does a refund take?") in {"quota", "config"}


@pytest.mark.parametrize(
    ("message", "status", "reason"),
    [("prompt is too long: 9 tokens", 400, "context_length"), ("Your input was flagged", 403, "content_filtered")],
)
def test_what_is_of_this_request_alone_is_heard_whatever_it_asks(message: str, status: int, reason: Reason) -> None:
    complaint = complaint_of({"error": {"message": message}})

    assert classify(complaint, status, asked="Why is it flagged that a prompt is too long?") == reason


async def test_a_provider_that_repeats_the_question_is_not_out_of_money() -> None:
    question = "What is the usage limit?"
    request = replace(REQUEST, messages=(Message("user", question),))
    body = {"error": {"type": "invalid_request_error", "message": f"unsupported value: {question}"}}

    failure = await failing([json.dumps(body).encode()], status=400, request=request)

    assert failure.reason == "rejected"


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_alone_means_something(status: int) -> None:
    assert classify(Complaint(), status) == by_status(status)


def test_bug_06_an_overload_is_one_whatever_the_status() -> None:
    complaint = complaint_of({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    assert classify(complaint, 200) == "overloaded"


async def test_a_refused_request_says_nothing_of_tokens() -> None:
    failure = await failing([b"{}"], status=500)

    assert failure.usage is None


async def test_how_long_to_stay_away_is_told_with_the_failure() -> None:
    _, openai = ERRORS["openai"]["rate"]
    _, gemini = ERRORS["gemini"]["rate"]

    by_header = await failing([b""], status=503, headers={"Retry-After": "7"})
    by_words = await failing([json.dumps(openai).encode()], status=429)
    by_body = await failing([json.dumps(gemini).encode()], "gemini", status=429)

    assert (by_header.retry_after_s, by_header.retry_after_guessed) == (7, False)
    assert (by_words.retry_after_s, by_words.retry_after_guessed) == (6.57, True)
    assert (by_body.retry_after_s, by_body.retry_after_guessed) == (46, False)


@pytest.mark.parametrize(
    "message",
    [
        f"Incorrect key provided: {KEY}.",
        "Incorrect key provided: sk-proj-abc*****************************xyz.",
        "Bearer abcdef is wrong",
        "Key AIzaSyA1234567890abcdef is wrong",
        f"messages.1: {QUESTION} is wrong",
        f"wrong: {QUESTION.upper()}",
        "wrong name: Erstattung",
        json.dumps("wrong: Rückerstattung für Müller"),
        "".join(f"\\u{ord(letter):04x}" for letter in "Возврат Иванову"),
        "word " * 1000,
    ],
)
async def test_neither_key_nor_prompt_is_repeated(message: str) -> None:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": "some_code"}}

    failure = await failing([json.dumps(body).encode()], status=400)

    assert failure.detail == "400 some_code"


async def test_words_of_a_message_that_help_are_told() -> None:
    message = "Unsupported parameter: 'max_tokens' does not work with Erstattung, use 'max_completion_tokens'"
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None}}

    failure = await failing([json.dumps(body).encode()], status=400)

    assert failure.detail == "400 invalid_request_error (unsupported parameter, max_tokens, max_completion_tokens)"


@pytest.mark.parametrize("kind", ["Max Müller", "Erstattung", "auftrag_4711", KEY, "x" * 65])
async def test_a_kind_that_may_be_of_the_prompt_is_not_told(kind: str) -> None:
    body = {"error": {"message": "The api key", "type": kind}}
    request = replace(REQUEST, messages=(Message("user", "Is Max Müller's API key due an Erstattung?"),))

    failure = await failing([json.dumps(body).encode()], status=418, request=request)

    assert failure.detail == "418"
