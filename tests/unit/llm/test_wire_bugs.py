"""Reports about other people's clients that are about the wire alone, each as a test of ours."""

from __future__ import annotations

import json

import pytest

from rag.calls import Usage
from rag.llm.events import Alive, End, Text
from tests.integration.llm.fake_steps import (
    Step,
    Tokens,
    azure_filter,
    azure_first,
    comment,
    done,
    err,
    fin,
    good,
    ping,
    raw,
    role,
    say,
    think,
    txt,
    usage,
)  # fmt: skip
from tests.unit.llm.wire import DIALECTS, failing, rendered, text_of, told, usage_of

TEXT = "Five business days [1]."
WHOLE = [role(), say("Five"), fin("stop", Tokens()), done]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_05_a_clean_end_without_a_finish_is_no_answer(dialect: str) -> None:
    failure = await failing([rendered(dialect, [role(), txt(10)])], dialect)

    assert failure.reason == "incomplete"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_05_an_answer_is_incomplete_wherever_it_is_cut_before_its_finish(dialect: str) -> None:
    body = rendered(dialect, [role(), say("Five "), say("days")])

    for at in range(len(body) + 1):
        failure = await failing([body[:at]], dialect)
        assert failure.reason == "incomplete"


async def test_bug_05_the_last_marker_without_a_reason_is_an_answer_only_where_that_is_known() -> None:
    body = rendered("openai", [role(), txt(10), done])

    failure = await failing([body])
    events = await told([body], quirks=["null_finish"])
    nothing_said = await failing([rendered("openai", [role(), done])], quirks=["null_finish"])
    no_marker = await failing([rendered("openai", [role(), txt(10)])], quirks=["null_finish"])

    assert failure.reason == nothing_said.reason == no_marker.reason == "incomplete"
    assert events[-1] == End("stop", Usage())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_06_an_error_as_the_first_frame_of_a_200_is_that_error(dialect: str) -> None:
    failure = await failing([rendered(dialect, [err("overloaded")])], dialect)

    # Ollama's "server busy" has no code, and its status is lost inside a stream
    assert failure.reason == ("server_error" if dialect == "ollama" else "overloaded")


async def test_bug_07_frames_without_data_are_no_errors() -> None:
    head, *rest = [rendered("openai", [step]) for step in good(TEXT)[:-1]]
    blocks = [b"retry: 10\n\n", b"event: ping\n\n", b"id: 7\n" + head, b": comment\n\n", *rest]

    events = await told(blocks)

    assert text_of(events) == TEXT
    assert isinstance(events[-1], End)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_comments_pings_and_thoughts_are_life_and_no_text(dialect: str) -> None:
    script = [comment, ping, think(3)]

    events = await told([*[rendered(dialect, [step]) for step in script], rendered(dialect, good(TEXT))], dialect)

    first_text = next(n for n, event in enumerate(events) if isinstance(event, Text))
    assert events[:first_text].count(Alive()) >= len(script)
    assert text_of(events) == TEXT


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_bug_18_running_totals_are_not_summed(dialect: str, times: int) -> None:
    totals = [usage(Tokens(1000, n)) for n in range(1, 11)]
    script = [role(Tokens(1000)), say("Five"), *[step for step in totals for _ in range(times)]]

    events = await told([rendered(dialect, [*script, fin("stop", Tokens(1000, 10)), done])], dialect)

    assert usage_of(events) == Usage(1000, 0, 0, 10, usage_of(events).reasoning)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_21_usage_of_zero_is_kept(dialect: str) -> None:
    zero = await told([rendered(dialect, [role(Tokens(0, 0)), say("Five"), fin("stop", Tokens(0, 0)), done])], dialect)

    assert (usage_of(zero).input, usage_of(zero).output) == (0, 0)


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
async def test_bug_21_usage_that_is_missing_is_unknown(dialect: str) -> None:
    events = await told([rendered(dialect, [role(), say("Five"), fin(), done])], dialect)

    assert usage_of(events) == Usage()


async def test_what_anthropic_says_of_the_output_before_there_is_any_is_not_taken_for_it() -> None:
    failure = await failing([rendered("anthropic", [role(Tokens(1000)), say("Five")])], "anthropic")

    assert failure.usage == Usage(1000, 0, 0, None)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("garbage", [b"{bad json", b"[1]", b"5", b"null", b'{"a": 1', b"[" * 100_000])
async def test_bug_26_a_garbled_frame_before_the_finish_may_have_been_text(dialect: str, garbage: bytes) -> None:
    frame = garbage + b"\n" if dialect == "ollama" else b"data: " + garbage + b"\n\n"

    failure = await failing([rendered(dialect, [role(), say("Five"), raw(frame), *WHOLE[1:]])], dialect)

    assert failure.reason == "malformed"


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_bug_26_a_garbled_frame_after_the_finish_changes_nothing(dialect: str) -> None:
    script = [*WHOLE[:-1], raw(b"data: {bad json\n\n"), done]

    events = await told([rendered(dialect, script)], dialect)

    assert (text_of(events), events[-1].__class__) == ("Five", End)


async def test_bug_26_a_garbled_frame_that_is_no_text_by_its_name_is_skipped() -> None:
    script = [role(), say("Five"), raw(b"event: ping\ndata: {bad\n\n"), *WHOLE[2:]]

    events = await told([rendered("anthropic", script)], "anthropic")

    assert (text_of(events), events[-1].__class__) == ("Five", End)


async def test_text_that_is_no_text_is_malformed() -> None:
    frame = raw(b'data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"x"}]}}]}\n\n')

    failure = await failing([rendered("openai", [role(), frame, *WHOLE[1:]])])

    assert failure.reason == "malformed"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_finish_that_nobody_knows_is_no_success(dialect: str) -> None:
    failure = await failing([rendered(dialect, [role(), say("Five"), fin("abort"), done])], dialect)

    assert failure.reason == "incomplete"


@pytest.mark.parametrize(
    ("dialect", "word", "reason"),
    [
        ("openai", "content_filter", "content_filtered"),
        ("openai", "error", "server_error"),
        ("openai", "tool_calls", "malformed"),
        ("anthropic", "refusal", "content_filtered"),
        ("anthropic", "pause_turn", "incomplete"),
        ("anthropic", "tool_use", "malformed"),
        ("gemini", "SAFETY", "content_filtered"),
        ("gemini", "RECITATION", "content_filtered"),
        ("gemini", "PROHIBITED_CONTENT", "content_filtered"),
        ("gemini", "MALFORMED_FUNCTION_CALL", "malformed"),
        ("gemini", "OTHER", "incomplete"),
        ("ollama", "load", "incomplete"),
    ],
)
async def test_a_finish_that_is_no_success_is_a_failure_with_its_usage(dialect: str, word: str, reason: str) -> None:
    failure = await failing([rendered(dialect, [role(), say("Five"), fin(word, Tokens(12, 3)), done])], dialect)

    assert failure.reason == reason
    assert failure.usage is not None
    assert (failure.usage.input, failure.usage.output) == (12, 3)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("blank", [[], [say(" ")], [say("\n"), say("\n")], [think(3)]])
async def test_a_finish_without_a_word_is_an_empty_answer(dialect: str, blank: list[Step]) -> None:
    failure = await failing([rendered(dialect, [role(), *blank, fin("stop", Tokens(12, 893)), done])], dialect)

    assert failure.reason == "empty"
    assert failure.usage is not None
    assert failure.usage.output == 893


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_blanks_before_the_first_word_come_with_it(dialect: str) -> None:
    events = await told([rendered(dialect, [role(), say("\n"), say(" "), say("Five"), *WHOLE[2:]])], dialect)

    assert [event for event in events if isinstance(event, Text)] == [Text("\n Five")]


async def test_a_blocked_prompt_is_a_refusal() -> None:
    failure = await failing([rendered("gemini", [err("policy")])], "gemini")

    assert failure.reason == "content_filtered"
    assert failure.usage == Usage(12, 0, 0, 0)


async def test_a_refusal_instead_of_an_answer_is_one() -> None:
    refusal = raw(b'data: {"choices":[{"index":0,"delta":{"refusal":"I can\'t"},"finish_reason":null}]}\n\n')

    failure = await failing([rendered("openai", [role(), refusal, fin("stop", Tokens()), done])])

    assert failure.reason == "content_filtered"
    assert failure.usage == Usage(12, 0, 0, 5, 0)


async def test_frames_of_azure_are_read() -> None:
    events = await told([rendered("openai", [azure_first, role(), say("Five"), azure_filter, *WHOLE[2:]])])

    assert text_of(events) == "Five"


async def test_azure_takes_back_what_its_filter_reads_too_late() -> None:
    late = raw(b'data: {"error":{"code":"content_filter","message":"x"}}\n\n')

    failure = await failing([rendered("openai", [*WHOLE[:-1], late])])

    assert failure.reason == "content_filtered"


async def test_another_error_after_the_finish_changes_nothing() -> None:
    events = await told([rendered("openai", [*WHOLE[:-1], err("server")])])

    assert events[-1] == End("stop", Usage(12, 0, 0, 5, 0))


async def test_an_error_of_vllm_is_one_though_the_last_marker_follows() -> None:
    error = raw(b'data: {"error":{"message":"x","type":"BadRequestError","param":null,"code":400}}\n\n')

    failure = await failing([rendered("openai", [role(), error, done])])

    assert (failure.reason, failure.status) == ("rejected", 400)


async def test_an_error_of_openrouter_is_one_though_a_choice_stands_beside_it() -> None:
    error = {"error": {"code": 502, "message": "x"}, "choices": [{"index": 0, "delta": {"content": ""},
             "finish_reason": "error"}]}  # fmt: skip

    failure = await failing([rendered("openai", [comment, role(), say("Five"), raw(_event(error)), done])])

    assert failure.reason == "server_error"


async def test_frames_of_ollamas_compatible_door_are_read() -> None:
    deltas = [{"role": "assistant", "content": word} for word in ("Five", " days")]
    frames = [raw(_event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})) for delta in deltas]

    events = await told([rendered("openai", [*frames, fin(), done])])

    assert text_of(events) == "Five days"


async def test_an_answer_beside_the_first_is_not_mixed_into_it() -> None:
    other = raw(_event({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}))

    events = await told([rendered("openai", [role(), other, *WHOLE[1:]])])

    assert (text_of(events), events[-1]) == ("Five", End("stop", Usage(12, 0, 0, 5, 0)))


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (['"a\\ud83d"', '"\\ude42b"'], "a🙂b"),
        (['"\\ud83d"', '"\\ude42"'], "🙂"),
        (['"a\\ud83d"'], "a\ufffd"),
        (['"a\\ude42b"'], "a\ufffdb"),
        (['"a\\u0000b"'], "a\ufffdb"),
    ],
)
async def test_characters_that_nothing_can_store_do_not_come_through(pieces: list[str], text: str) -> None:
    frames = [b'data: {"choices":[{"index":0,"delta":{"content":%b}}]}\n\n' % piece.encode() for piece in pieces]

    events = await told([*frames, rendered("openai", [fin(), done])])

    assert text_of(events) == text


def _event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"
