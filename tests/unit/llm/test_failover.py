"""What happens to a request when targets fail in every way there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from rag import errors
from rag.calls import NO_TOKENS, ChatRequest, Reply, Usage, prompt_tokens
from rag.errors import Tried
from rag.llm.events import Alive, End, Event, Text, UsageSeen
from rag.llm.failures import Failure
from tests.unit.llm.scripted import OK, TENTH, USAGE, Scripted, Stage, asked

pytestmark = pytest.mark.quiet

LONG = 30.0  # a stall
END = End("stop", USAGE)


def fails(reason: Any, **facts: Any) -> tuple[Failure, ...]:
    return (Failure(reason, **facts),)


async def test_the_first_target_answers() -> None:
    stage = Stage(Scripted("p1"), Scripted("p2"))

    pieces, reply = await stage.streamed()

    assert pieces == ["Five ", "days. [1]"]
    assert reply == Reply("Five days. [1]", "p1", "p1-model", USAGE, "stop")
    assert stage.tried() == [("p1", "answered", "")]


FALLING = [
    "connect", "first_content_timeout", "idle_timeout", "rate_limited", "quota", "config", "server_error", "overloaded",
    "timeout", "conflict", "empty", "malformed", "incomplete",
]  # fmt: skip


@pytest.mark.parametrize("reason", FALLING)
async def test_a_failure_before_the_first_words_is_not_seen(reason: Any) -> None:
    stage = Stage(Scripted("p1", (Alive(), Failure(reason))), Scripted("p2"))

    pieces, reply = await stage.streamed()

    assert "".join(pieces) == "Five days. [1]"
    assert isinstance(reply, Reply)
    assert reply.target == "p2"
    assert ("p1", "failed", reason) in stage.tried()


@pytest.mark.parametrize(("reason", "hits"), [("server_error", 2), ("timeout", 2), ("conflict", 2), ("empty", 2),
    ("connect", 2), ("overloaded", 2), ("rate_limited", 1), ("quota", 1), ("config", 1), ("malformed", 1),
    ("rejected", 1), ("context_length", 1), ("content_filtered", 1), ("first_content_timeout", 1)])  # fmt: skip
async def test_alone_a_target_is_tried_again_where_that_may_help(reason: Any, hits: int) -> None:
    alone = Scripted("p1", fails(reason))

    await Stage(alone).refused(EXPECTED[reason])

    assert len(alone.hits) == hits


BOTH = {"p1", "p2"}
EXPECTED: dict[str, type[errors.RagError]] = {
    "connect": errors.UpstreamUnavailable,
    "first_content_timeout": errors.UpstreamTimeout,
    "rate_limited": errors.UpstreamRateLimited,
    "quota": errors.ProviderQuota,
    "config": errors.ProviderConfig,
    "server_error": errors.UpstreamError,
    "overloaded": errors.UpstreamUnavailable,
    "timeout": errors.UpstreamTimeout,
    "conflict": errors.UpstreamError,
    "rejected": errors.UpstreamRejected,
    "context_length": errors.ContextLength,
    "content_filtered": errors.ContentFiltered,
    "empty": errors.EmptyCompletion,
    "malformed": errors.UpstreamError,
    "incomplete": errors.UpstreamIncomplete,
}


@pytest.mark.parametrize(("reason", "kind"), EXPECTED.items())
async def test_when_nothing_else_works_the_first_failure_is_said_with_all_that_was_tried(
    reason: Any, kind: type[errors.RagError]
) -> None:
    stage = Stage(Scripted("p1", fails(reason)), Scripted("p2", fails("config")))

    error = await stage.refused(kind)

    assert error.tried[0][:2] == ("p1", reason)
    assert all(isinstance(tried, Tried) and tried.ms >= 0 for tried in error.tried)
    assert len([tried for tried in error.tried if not tried.skipped]) == len(stage.calls[-1].attempts)
    assert {tried.target for tried in error.tried} == ({"p1"} if reason in {"rejected", "content_filtered"} else BOTH)


@pytest.mark.parametrize("reason", ["rejected", "content_filtered"])
async def test_nobody_else_is_asked_what_was_refused(reason: Any) -> None:
    other = Scripted("p2")
    stage = Stage(Scripted("p1", fails(reason)), other, extractive=True)

    await stage.refused(EXPECTED[reason])

    assert (other.hits, stage.sentences.hits) == ([], 0)
    assert stage.breaker("p1").state == "closed"


async def test_what_is_too_long_goes_only_to_a_target_that_reads_more() -> None:
    small = Scripted("p1", fails("context_length"), context_tokens=4096)
    same, larger = Scripted("p2", context_tokens=4096), Scripted("p3", context_tokens=8192)

    reply = await Stage(small, same, larger).complete()

    assert (reply.target, same.hits) == ("p3", [])


async def test_a_whole_answer_may_come_from_the_next_target_though_the_first_broke_off() -> None:
    stage = Stage(Scripted("p1", (Text("Four "), Failure("incomplete"))), Scripted("p2"))

    reply = await stage.complete()

    assert reply.text == "Five days. [1]"
    assert stage.tried() == [("p1", "partial", "incomplete"), ("p2", "answered", "")]


async def test_after_the_first_words_no_other_target_is_asked() -> None:
    other = Scripted("p2")
    stage = Stage(Scripted("p1", (Text("Four "), Failure("server_error"))), other, extractive=True)

    pieces, error = await stage.streamed()

    assert pieces == ["Four "]
    assert isinstance(error, errors.UpstreamIncomplete)
    assert error.tried[0][:2] == ("p1", "server_error")
    assert (other.hits, stage.sentences.hits) == ([], 0)


async def test_a_refusal_in_the_middle_is_said_to_be_one() -> None:
    _, error = await Stage(Scripted("p1", (Text("Four "), Failure("content_filtered"))), Scripted("p2")).streamed()

    assert isinstance(error, errors.ContentFiltered)


async def test_a_stream_that_just_ends_is_incomplete() -> None:
    _, error = await Stage(Scripted("p1", (Text("Five days."),))).streamed()

    assert isinstance(error, errors.UpstreamIncomplete)


async def test_blanks_are_no_answer() -> None:
    error = await Stage(Scripted("p1", (Text(" \n"), END))).refused(errors.EmptyCompletion)

    assert [tried.reason for tried in error.tried] == ["empty", "empty"]


async def test_an_empty_answer_cut_by_its_length_is_the_callers_limit() -> None:
    reply = await Stage(Scripted("p1", (End("length", USAGE),))).complete()

    assert (reply.text, reply.finish) == ("", "length")


async def test_each_attempt_begins_anew() -> None:
    p1 = Scripted("p1", (Text("Four "), UsageSeen(Usage(9, output=9)), Failure("server_error")), OK)
    stage = Stage(p1)

    reply = await stage.complete()

    assert reply.text == "Five days. [1]"
    assert reply.usage == USAGE
    assert [attempt.number for attempt in stage.calls[-1].attempts] == [1, 2]


@pytest.mark.parametrize(
    ("script", "reason", "outcome"),
    [
        ((LONG,), "first_content_timeout", "failed"),
        ((Alive(), LONG), "first_content_timeout", "failed"),
        (tuple([Alive(), 0.05] * 20), "first_content_timeout", "failed"),  # pings are no words
        ((Text("Four"), LONG), "idle_timeout", "partial"),
        ((Text("Four"), *[Alive(), 0.1] * 30), "idle_timeout", "partial"),  # for longer, but not for ever
    ],
)
async def test_silence_ends_at_its_own_limit(script: tuple[Any, ...], reason: str, outcome: str) -> None:
    p1 = Scripted("p1", script)
    stage = Stage(p1)
    started = time.monotonic()

    await stage.streamed()

    assert time.monotonic() - started < 1.5
    assert stage.tried() == [("p1", outcome, reason)]
    assert p1.closed == 1


async def test_pings_keep_a_pause_between_words_alive_for_some_time() -> None:
    thinking = (Text("Five "), *[Alive(), 0.1] * 5, Text("days."), END)  # idle limit 0.3 s

    pieces, reply = await Stage(Scripted("p1", thinking)).streamed()

    assert isinstance(reply, Reply)
    assert pieces == ["Five ", "days."]


async def test_a_steady_answer_may_take_longer_than_any_limit_of_silence() -> None:
    steady = (*[Text("word "), 0.05] * 20, END)

    _, reply = await Stage(Scripted("p1", steady)).streamed()

    assert isinstance(reply, Reply)
    assert reply.text == "word " * 20


async def test_whoever_has_more_time_than_usual_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, passed_s = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now() + passed_s)

    async def slow(request: ChatRequest) -> AsyncGenerator[Event, None]:
        nonlocal passed_s
        passed_s = 100.0
        raise Failure("overloaded")
        yield  # a generator all the same

    first = Scripted("p1", first_content_timeout_s=500)
    first.events = slow  # type: ignore[method-assign]
    stage = Stage(first, Scripted("p2"))

    reply = await stage.complete(within_s=200)

    assert reply.target == "p2"


async def test_the_callers_time_ends_everything_and_is_no_fault_of_a_quick_target() -> None:
    stage = Stage(Scripted("p1", (*[Text("word "), 0.02] * 100, END)))
    started = time.monotonic()

    _, error = await stage.streamed(within_s=0.4)

    assert time.monotonic() - started < 0.6
    assert isinstance(error, errors.DeadlineExceeded)
    assert stage.tried() == [("p1", "partial", "deadline")]


async def test_no_attempt_begins_when_hardly_any_time_is_left() -> None:
    p1 = Scripted("p1")

    await Stage(p1).refused(errors.DeadlineExceeded, within_s=0.01)

    assert p1.hits == []


async def test_the_sentences_of_the_sources_answer_when_all_else_failed_and_in_time() -> None:
    stage = Stage(Scripted("p1", (LONG,), first_content_timeout_s=5), extractive=True)

    reply = await stage.complete(within_s=0.5)

    failovers = stage.metrics.registry.get_sample_value(
        "rag_chat_failovers_total", {"left": "p1", "taken": "extractive"}
    )
    assert (reply.target, failovers) == ("extractive", 1)
    assert reply.degraded is not None
    assert reply.degraded.reason == "deadline"
    assert stage.tried() == [("p1", "failed", "deadline"), ("extractive", "answered", "")]


async def test_the_sentences_alone_are_no_lesser_answer() -> None:
    reply = await Stage(extractive=True).complete()

    assert (reply.target, reply.degraded) == ("extractive", None)


async def test_an_answer_of_a_lower_tier_is_degraded_and_one_of_the_same_is_not() -> None:
    down = fails("overloaded")
    same = await Stage(Scripted("p1", down), Scripted("p2")).complete()
    lesser = await Stage(Scripted("p1", down), Scripted("p2", tier=2)).complete()

    assert same.degraded is None
    assert lesser.degraded is not None
    assert (lesser.degraded.reason, lesser.degraded.tried[0][:2]) == ("overloaded", ("p1", "overloaded"))


async def test_no_more_than_four_attempts_at_three_targets_are_made() -> None:
    targets = [Scripted(f"p{n}", fails("server_error")) for n in range(1, 5)]

    await Stage(*targets).refused(errors.UpstreamError)

    assert [len(target.hits) for target in targets] == [2, 2, 0, 0]


async def test_at_most_three_targets_are_asked() -> None:
    targets = [Scripted(f"p{n}", fails("overloaded")) for n in range(1, 5)]

    await Stage(*targets).refused(errors.UpstreamUnavailable)

    assert [len(target.hits) for target in targets] == [1, 1, 1, 0]


async def test_a_target_is_asked_again_after_the_time_it_named() -> None:
    p1 = Scripted("p1", fails("rate_limited", retry_after_s=0.2, status=429), OK)

    reply = await Stage(p1).complete()

    assert reply.target == "p1"
    gap = p1.hits[1] - p1.hits[0]
    assert 0.2 <= gap <= 0.2 + TENTH.backoff_s + 0.05


async def test_with_another_target_free_nobody_waits() -> None:
    p1 = Scripted("p1", fails("rate_limited", retry_after_s=0.2))
    started = time.monotonic()

    reply = await Stage(p1, Scripted("p2")).complete()

    assert (reply.target, len(p1.hits)) == ("p2", 1)
    assert time.monotonic() - started < 0.2


@pytest.mark.parametrize("failure", [
    Failure("rate_limited"), Failure("rate_limited", retry_after_s=0.0), Failure("rate_limited", retry_after_s=47.0),
    Failure("rate_limited", retry_after_s=0.1, retry_after_guessed=True),
])  # fmt: skip
async def test_no_long_or_doubtful_time_is_waited_for(failure: Failure) -> None:
    p1 = Scripted("p1", (failure,))
    started = time.monotonic()

    error = await Stage(p1).refused(errors.UpstreamRateLimited)

    assert (len(p1.hits), error.retry_after_s is not None and error.retry_after_s >= 0.1) == (1, True)
    assert time.monotonic() - started < 0.5


async def test_who_asks_next_is_told_when_to_come_back() -> None:
    stage = Stage(Scripted("p1", fails("rate_limited", retry_after_s=47.0)))
    await stage.refused(errors.UpstreamRateLimited)

    error = await stage.refused(errors.UpstreamRateLimited)

    assert 46 < error.retry_after_s <= 47
    assert error.tried == (Tried("p1", "rate_limited", skipped=True),)


async def test_quota_and_key_take_a_target_out_at_once_and_are_named_afterwards() -> None:
    stage = Stage(Scripted("p1", fails("quota", status=429)), Scripted("p2", fails("config", status=401)))
    await stage.refused(errors.ProviderQuota)

    states = [hop.breaker.state for hop in stage.hops]
    again = await stage.refused(errors.ProviderConfig)  # p2 is back first

    assert states == ["disabled", "disabled"]
    assert again.tried == (Tried("p1", "quota", skipped=True), Tried("p2", "config", skipped=True))


async def test_one_network_failure_of_all_targets_is_named_and_opens_no_breaker() -> None:
    targets = [Scripted(f"p{n}", fails("connect")) for n in range(1, 4)]
    stage = Stage(*targets)

    for _ in range(6):
        error = await stage.refused(errors.NoNetwork)
        await asyncio.sleep(0.11)

    assert [hop.breaker.state for hop in stage.hops] == ["closed"] * 3
    assert error.retry_after_s == TENTH.no_network_s
    assert [len(target.hits) for target in targets] == [12, 6, 6]  # the first pass ends it


async def test_a_target_that_alone_cannot_be_reached_is_left_alone() -> None:
    p1 = Scripted("p1", fails("connect"))
    stage = Stage(p1, Scripted("p2"))

    for _ in range(4):
        assert (await stage.complete()).target == "p2"

    assert stage.breaker("p1").state == "open"
    assert len(p1.hits) == 6  # five in a row opened it within the third request, whose second attempt was under way


async def test_retries_stop_when_most_requests_fail() -> None:
    p1 = Scripted("p1", fails("conflict"))  # neutral: no breaker ends it
    stage = Stage(p1)

    for _ in range(40):
        await stage.refused(errors.UpstreamError)

    assert len(p1.hits) == 40 + 20  # 100 tokens, 5 each


async def test_a_whole_answer_by_the_first_attempt_earns_tokens() -> None:
    conflict = fails("conflict")
    p1 = Scripted("p1", *[conflict] * 60, *[OK] * 5, conflict)
    stage = Stage(p1)
    for _ in range(40):
        await stage.refused(errors.UpstreamError)
    for _ in range(5):
        await stage.complete()
    before = len(p1.hits)

    await stage.refused(errors.UpstreamError)
    await stage.refused(errors.UpstreamError)

    assert len(p1.hits) - before == 2 + 1


async def test_a_stream_that_is_closed_leaves_the_provider_at_once_and_the_breaker_as_it_was() -> None:
    p1 = Scripted("p1", (Text("a" * 20), UsageSeen(Usage(30, output=1)), Text("b" * 20), LONG))
    stage = Stage(p1)
    call = stage._call(5.0)
    async with aclosing(stage.chat.stream(asked(), call)) as items:
        await anext(items)
        await anext(items)

    [attempt] = call.attempts
    assert p1.closed == 1
    assert (attempt.outcome, stage.breaker("p1").state, stage.hops[0].under_way) == ("cancelled", "closed", 0)
    assert attempt.usage == Usage(input_uncached=30, output=20, estimated=True)  # 40 characters


@pytest.mark.parametrize(
    "script", [(LONG,), (Alive(), LONG), (Text("a"), LONG), fails("rate_limited", retry_after_s=0.4)]
)
async def test_a_cancelled_call_ends_at_once_in_every_phase(script: tuple[Any, ...]) -> None:
    stage = Stage(Scripted("p1", script, first_content_timeout_s=20, idle_timeout_s=20))
    task = asyncio.create_task(stage.complete(within_s=20))
    await asyncio.sleep(0.1)
    started = time.monotonic()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - started < 0.3
    assert stage.hops[0].under_way == 0
    assert stage.breaker("p1").admits or stage.breaker("p1").state == "resting"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ((LONG,), Usage(30, output=0, estimated=True)),  # it may have read the prompt
        ((Text("a" * 10), Failure("incomplete")), Usage(30, output=5, estimated=True)),
        ((Failure("incomplete", usage=Usage(None, 20, output=3)),), Usage(26, 20, output=3, estimated=True)),
        ((UsageSeen(Usage(7, output=1)), Text("a" * 10), Failure("incomplete")), Usage(7, output=5, estimated=True)),
        ((Text("a" * 10), UsageSeen(Usage(7, output=6)), Failure("incomplete")), Usage(7, output=6)),
        ((Text("a" * 10), Failure("incomplete", usage=Usage(8, output=9))), Usage(8, output=9)),
        ((Failure("empty", usage=Usage(7, output=893)),), Usage(7, output=893)),  # billed, though it said nothing
    ],
)
async def test_half_an_answer_costs_what_came_of_it(script: tuple[Any, ...], expected: Usage) -> None:
    stage = Stage(Scripted("p1", script))
    await stage.streamed()

    usage = stage.calls[-1].attempts[0].usage

    assert replace(usage, input_uncached=usage.input_uncached and min(usage.input_uncached, 30)) == expected


REFUSALS = [
    ("connect", None), ("rate_limited", 429), ("quota", 402), ("config", 401), ("config", 403), ("config", 404),
    ("rejected", 400), ("context_length", 413), ("content_filtered", 400), ("server_error", 500), ("overloaded", 529),
    ("timeout", 504), ("overloaded", 200), ("server_error", 200), ("rate_limited", 200), ("quota", 200),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "status"), REFUSALS)
async def test_who_refuses_has_read_nothing_also_as_the_first_event_of_a_200(reason: Any, status: int | None) -> None:
    stage = Stage(Scripted("p1", fails(reason, status=status)))
    await stage.streamed()

    assert {attempt.usage for attempt in stage.calls[-1].attempts} == {NO_TOKENS}


@pytest.mark.parametrize("reason", ["overloaded", "server_error", "rate_limited", "config"])
async def test_who_fails_after_it_began_to_work_has_read_the_prompt(reason: Any) -> None:
    stage = Stage(Scripted("p1", (Alive(), *fails(reason, status=200))))
    await stage.streamed()

    read = prompt_tokens(asked().messages)
    assert {attempt.usage for attempt in stage.calls[-1].attempts} == {Usage(read, output=0, estimated=True)}


@pytest.mark.parametrize("reason", ["malformed", "incomplete", "timeout", "content_filtered", "empty"])
async def test_what_is_no_refusal_of_work_has_cost_the_prompt(reason: Any) -> None:
    stage = Stage(Scripted("p1", fails(reason, status=200)))
    await stage.streamed()

    read = prompt_tokens(asked().messages)
    assert {attempt.usage for attempt in stage.calls[-1].attempts} == {Usage(read, output=0, estimated=True)}


async def test_an_estimate_is_of_no_more_than_the_caller_asked_for() -> None:
    silent, more = Scripted("p1", (Text("a" * 400), End("stop", Usage()))), Usage(30, output=90)
    counted = Scripted("p1", (UsageSeen(more), Text("a" * 400), Failure("incomplete")))

    reply = await Stage(silent).complete(max_tokens=64)
    broken = Stage(counted)
    await broken.refused(errors.UpstreamIncomplete, max_tokens=64)

    assert (reply.usage.output, reply.usage.estimated) == (64, True)
    assert broken.calls[-1].attempts[0].usage == more  # what the provider counted is more than our guess


async def test_a_whole_answer_without_numbers_is_estimated_and_explicit_zeros_are_kept() -> None:
    silent = await Stage(Scripted("p1", (Text("a" * 10), End("stop", Usage())))).complete()
    zero = await Stage(Scripted("p1", (Text("a" * 10), End("stop", Usage(0, output=0))))).complete()

    assert (silent.usage.output, silent.usage.estimated) == (5, True)
    assert zero.usage == Usage(0, output=0)


async def test_attempts_failovers_and_first_words_are_counted() -> None:
    stage = Stage(Scripted("p1", fails("overloaded")), Scripted("p2"))
    await stage.complete()

    def value(name: str, **labels: str) -> float | None:
        return stage.metrics.registry.get_sample_value(name, labels)

    assert value("rag_chat_attempts_total", target="p1", outcome="overloaded") == 1
    assert value("rag_chat_attempts_total", target="p2", outcome="answered") == 1
    assert value("rag_chat_failovers_total", left="p1", taken="p2") == 1
    assert value("rag_chat_first_content_seconds_count", target="p2") == 1
