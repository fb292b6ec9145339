"""Bugs that others reported of their gateways and SDKs, each as the test that it would have failed."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from rag import errors
from rag.calls import Call, Reply
from rag.values import Deadline, TenantId
from tests.integration.llm.fake_server import FakeServer, refusing_url
from tests.integration.llm.fake_steps import (
    Script,
    Tokens,
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
    raw,
    role,
    rst,
    slowhead,
    stall,
    status,
    txt,
)  # fmt: skip
from tests.integration.llm.theatre import PATIENCE_S, SHORT, Theatre, asked, open_theatre

pytestmark = pytest.mark.quiet

TEXT = "Five business days [1]."
OTHER = "A week [2]."
DIALECTS = ["openai", "anthropic", "gemini", "ollama"]


async def eventually(seen: Any, within_s: float = 2.0) -> float:
    """Seconds until *seen* tells something."""
    started = time.monotonic()
    while not seen():
        assert time.monotonic() - started < within_s
        await asyncio.sleep(0.005)
    return time.monotonic() - started


def value(theatre: Theatre, name: str, **labels: str) -> float | None:
    return theatre.metrics.registry.get_sample_value(name, labels)


async def test_bug_01_an_overload_as_the_first_event_of_a_200_is_not_seen(fake: FakeServer) -> None:
    fake.play("p1", [head200(), err("overloaded")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect="anthropic") as theatre:
        seen = await theatre.stream()

    assert "".join(seen.pieces) == TEXT
    assert seen.tried == [("p1", "failed", "overloaded"), ("p2", "answered", "")]


@pytest.mark.parametrize(("dialect", "kind"), [("openai", "quota"), ("anthropic", "spend_cap")])
async def test_bug_02_an_error_after_a_lifecycle_event_is_not_passed_through(
    fake: FakeServer, dialect: str, kind: str
) -> None:
    fake.play("p1", [role(), err(kind)])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()
        state = theatre.hops["p1"].breaker.state

    assert "".join(seen.pieces) == TEXT
    assert seen.tried[0] == ("p1", "failed", "quota")
    assert state == "disabled"  # not open: no error of its own


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([role(), stall(30)], id="stall"),
        pytest.param([role(), cut], id="cut"),
        pytest.param([role(), raw(b"data: {not json\n\n"), eof], id="garbage"),
    ],
)
async def test_bug_03_whatever_breaks_before_the_first_word_falls_back_once(fake: FakeServer, script: Script) -> None:
    fake.play("p1", script)
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, SHORT, {}) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT
    assert (len(fake.hits["p1"]), len(fake.hits["p2"])) == (1, 1)


async def test_bug_04_a_cut_answer_is_no_success_and_no_other_is_put_behind_it(fake: FakeServer) -> None:
    fake.play("p1", [role(), txt(40), cut])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        seen = await theatre.stream()

    assert (type(seen.end), len(seen.pieces)) == (errors.UpstreamIncomplete, 40)
    assert seen.tried == [("p1", "partial", "incomplete")]
    assert fake.hits["p2"] == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_05_a_clean_end_without_a_finish_is_not_stop(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), txt(10), eof])

    async with open_theatre(fake, {}, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamIncomplete)


async def test_bug_06_an_error_inside_a_200_is_one_failure_of_the_breaker(fake: FakeServer) -> None:
    fake.play("p1", [role(), err("overloaded")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect="anthropic") as theatre:
        seen = [await theatre.stream() for _ in range(4)]
        before = theatre.hops["p1"].breaker.state
        seen.append(await theatre.stream())
        after = theatre.hops["p1"].breaker.state

    assert [one.reply.text for one in seen] == [TEXT] * 5
    assert (before, after) == ("closed", "open")  # five failures: one for each attempt


async def test_bug_09_two_attempts_are_two_requests(fake: FakeServer) -> None:
    fake.play("p1", [fails("server")])

    async with open_theatre(fake, {}) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamError)
    assert len(fake.hits["p1"]) == 2


async def test_bug_10_a_long_retry_after_is_not_slept_through(fake: FakeServer) -> None:
    fake.play("p1", [fails("rate", {"Retry-After": "47"})])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        seen = await theatre.stream(within_s=2.0)
        alone = await open_alone(fake)

    assert seen.reply.text == TEXT
    assert seen.seconds < 0.5
    assert isinstance(alone.end, errors.UpstreamRateLimited)
    assert alone.seconds < 0.5
    assert alone.end.retry_after_s == pytest.approx(47, abs=1)


async def open_alone(fake: FakeServer) -> Any:
    async with open_theatre(fake, {}) as theatre:
        return await theatre.stream(within_s=2.0)


@pytest.mark.parametrize(
    ("script", "reason", "limit_s"),
    [
        pytest.param([blackhole], "first_content_timeout", 1.0, id="blackhole"),
        pytest.param([slowhead(5), *good(TEXT)], "first_content_timeout", 1.0, id="slowhead"),
        pytest.param([role(), stall(5), *good(TEXT)[1:]], "first_content_timeout", 1.0, id="role then stall"),
        pytest.param([role(), *[ping, stall(0.1)] * 40, *good(TEXT)[1:]], "first_content_timeout", 1.0, id="pings"),
        pytest.param([role(), txt(3), stall(5), txt(3), fin(), done], "idle_timeout", 0.5, id="words then stall"),
    ],
)
async def test_bug_11_each_silence_ends_at_its_own_limit(
    fake: FakeServer, script: Script, reason: str, limit_s: float
) -> None:
    fake.play("p1", script)

    async with open_theatre(fake, {**SHORT, "idle_timeout_s": 0.5}, dialect="anthropic") as theatre:
        seen = await theatre.stream()

    assert [attempt.reason for attempt in seen.attempts] == [reason]
    assert limit_s <= seen.seconds < limit_s + 0.4


async def test_bug_11_a_connection_that_nobody_takes_ends_at_the_limit_of_connecting(fake: FakeServer) -> None:
    fake.play("p2", good(TEXT))
    unreachable = {"url": "http://192.0.2.1:9"}  # of no network; where the machine refuses it, it is quicker

    async with open_theatre(fake, unreachable, {}) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT
    assert {attempt.reason for attempt in seen.attempts if attempt.target == "p1"} == {"connect"}
    assert seen.seconds < 1.0  # twice 0.2 s, and the wait between


async def test_bug_12_a_steady_answer_outlives_the_limit_of_the_first_word(fake: FakeServer) -> None:
    fake.play("p1", [role(), txt(60, gap_s=0.05), fin(), done])

    async with open_theatre(fake, {"first_content_timeout_s": 1.0, "idle_timeout_s": 1.0}) as theatre:
        seen = await theatre.stream()

    assert seen.seconds > 2.5
    assert len(seen.reply.text.split()) == 60


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_13_an_empty_account_is_asked_once_and_then_left_alone(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("quota")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = [await theatre.stream() for _ in range(3)]
        state = theatre.hops["p1"].breaker.state
    async with open_theatre(fake, {}, dialect=dialect) as theatre:
        alone = await theatre.stream()

    assert [one.reply.text for one in seen] == [TEXT] * 3
    assert state == "disabled"
    assert value(theatre, "rag_chat_attempts_total", target="p1", outcome="quota") == 1
    assert isinstance(alone.end, errors.ProviderQuota)


@pytest.mark.parametrize("name", ["Retry-After", "retry-after-ms"])
async def test_bug_14_the_time_that_a_provider_names_is_kept(fake: FakeServer, name: str) -> None:
    fake.play("p1", [fails("rate", {name: "200" if name.endswith("ms") else "0.2"})], good(TEXT))

    async with open_theatre(fake, {}) as theatre:
        seen = await theatre.stream()

    first, second = (hit.arrived_at for hit in fake.hits["p1"])
    assert seen.reply.text == TEXT
    assert 0.2 <= second - first <= 0.2 + 0.025 + 0.15  # the hint, full jitter, and what the machine takes


async def test_bug_15_the_later_of_two_cooldowns_holds(fake: FakeServer) -> None:
    fake.play("p1", [fails("rate", {"Retry-After": "1"})], [fails("rate", {"Retry-After": "30"})])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        both = await asyncio.gather(theatre.stream(), theatre.stream())
        opens_in_s = theatre.hops["p1"].breaker.opens_in_s()

    assert [one.reply.text for one in both] == [TEXT, TEXT]
    assert 29 < opens_in_s <= 30


async def test_bug_15_a_target_that_always_fails_is_taken_out(fake: FakeServer) -> None:
    fake.play("p1", [fails("server")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        seen = [await theatre.stream() for _ in range(10)]

    assert [one.reply.text for one in seen] == [TEXT] * 10
    assert len(fake.hits["p1"]) <= 6  # the fifth failure opens it; the sixth was that request's second attempt


async def test_bug_16_of_fifty_that_wait_one_probes(fake: FakeServer) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        for _ in range(5):
            await theatre.stream()
        fake.play("p1", [slowhead(0.3), *good(OTHER)])
        await asyncio.sleep(0.55)  # until it is half-open
        tasks = [asyncio.create_task(theatre.chat.complete(asked(), call())) for _ in range(50)]
        await eventually(lambda: len(fake.hits["p2"]) >= 49)
        probes = len(fake.hits["p1"])
        replies = await asyncio.gather(*tasks)
        closed = theatre.hops["p1"].breaker.state

    assert probes == 1
    assert sorted(reply.text for reply in replies) == [OTHER] + [TEXT] * 49
    assert closed == "closed"


@pytest.mark.parametrize(
    ("script", "state"),
    [
        pytest.param(good(OTHER), "closed", id="success"),
        pytest.param([fails("server")], "open", id="failure"),
        pytest.param([fails("auth")], "disabled", id="neutral"),
        pytest.param([fails("policy")], "half_open", id="caller's fault"),
    ],
)
async def test_bug_16_the_place_of_the_probe_is_free_however_it_ends(
    fake: FakeServer, script: Script, state: str
) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        breaker = theatre.hops["p1"].breaker
        for _ in range(5):
            await theatre.stream()
        fake.play("p1", script)
        await asyncio.sleep(0.55)
        await theatre.stream()

        assert breaker.state == state
        assert breaker.admits == (state in {"closed", "half_open"})


async def test_bug_16_the_place_of_a_cancelled_probe_is_free_at_once(fake: FakeServer) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        for _ in range(5):
            await theatre.stream()
        fake.play("p1", [blackhole])
        await asyncio.sleep(0.55)
        task = asyncio.create_task(theatre.chat.complete(asked(), call()))
        await eventually(lambda: fake.hits["p1"])
        taken = not theatre.hops["p1"].breaker.admits
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert taken
        assert theatre.hops["p1"].breaker.admits


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_17_a_caller_that_leaves_ends_the_request_and_pays_for_what_came(
    fake: FakeServer, dialect: str
) -> None:
    fake.play("p1", [role(), txt(20), stall()])
    mine = call()

    async with open_theatre(fake, {}, dialect=dialect) as theatre:
        async with aclosing(theatre.chat.stream(asked(), mine)) as items:
            pieces = [await anext(items) for _ in range(20)]
        took_s = await eventually(lambda: fake.hits["p1"][0].client_closed_at)
        state = theatre.hops["p1"].breaker.state

    [attempt] = mine.attempts
    assert took_s <= 0.5
    assert (attempt.outcome, attempt.usage.estimated, state) == ("cancelled", True, "closed")
    assert attempt.usage.output == -(-len("".join(map(str, pieces))) // 2)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([blackhole], id="waiting for the head"),
        pytest.param([role(), stall()], id="waiting for the first word"),
        pytest.param([role(), txt(3), stall()], id="between words"),
    ],
)
async def test_a_cancelled_call_closes_its_connection_in_every_phase(fake: FakeServer, script: Script) -> None:
    fake.play("p1", script)

    async with open_theatre(fake, {"first_content_timeout_s": 9, "idle_timeout_s": 9}) as theatre:
        task = asyncio.create_task(theatre.chat.complete(asked(), call()))
        await eventually(lambda: fake.hits["p1"])
        await asyncio.sleep(0.05)
        task.cancel()
        took_s = await eventually(lambda: fake.hits["p1"][0].client_closed_at)
        await asyncio.gather(task, return_exceptions=True)

    assert took_s <= 0.5


async def test_hundreds_of_cancelled_calls_leave_no_connection_behind(fake: FakeServer) -> None:
    fake.play("p1", [role(), txt(3), stall()])

    async with open_theatre(fake, {"connect_timeout_s": PATIENCE_S}) as theatre:
        for _ in range(5):
            hits = len(fake.hits["p1"])
            tasks = [asyncio.create_task(theatre.chat.complete(asked(), call())) for _ in range(40)]
            await eventually(lambda hits=hits: len(fake.hits["p1"]) == hits + 40, PATIENCE_S)
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        left = fake.hits["p1"][:]
        await eventually(lambda: all(hit.client_closed_at for hit in left), PATIENCE_S)

    assert len(left) == 200
    assert theatre.hops["p1"].under_way == 0


async def test_no_network_is_said_at_once_and_opens_no_breaker(fake: FakeServer) -> None:
    down = [{"url": f"{refusing_url()}/v1"} for _ in range(3)]

    async with open_theatre(fake, *down) as theatre:
        seen = []
        for _ in range(6):  # five failures in a row would open one
            seen.append(await theatre.stream())
            await asyncio.sleep(0.11)  # until they may be asked again
        states = [hop.breaker.state for hop in theatre.hops.values()]

    assert [type(one.end) for one in seen] == [errors.NoNetwork] * 6
    assert all(one.attempts and one.seconds < 0.5 for one in seen)
    assert states == ["closed"] * 3


@pytest.mark.parametrize("kind", ["auth", "region", "model"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_refused_key_or_model_moves_on(fake: FakeServer, dialect: str, kind: str) -> None:
    fake.play("p1", [fails(kind)])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT
    assert seen.tried[0] == ("p1", "failed", "config")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_that_cannot_be_read_moves_nowhere(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("malformed")])

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamRejected)
    assert (len(fake.hits["p1"]), fake.hits["p2"]) == (1, [])


async def test_an_answer_that_was_billed_and_is_empty_is_asked_for_elsewhere_and_stays_in_the_ledger(
    fake: FakeServer,
) -> None:
    fake.play("p1", [role(Tokens(12, 893)), fin("stop", Tokens(12, 893)), done])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake, dialect="anthropic") as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT
    assert seen.tried[0] == ("p1", "failed", "empty")
    assert [attempt.usage.output for attempt in seen.attempts] == [893, 893, 5]


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])  # Ollama's line of text does not tell
async def test_a_rate_limit_inside_a_stream_falls_back_before_the_first_word_and_ends_it_after(
    fake: FakeServer, dialect: str
) -> None:
    fake.play("p1", [role(), err("rate")])
    fake.play("p2", [role(), txt(3), err("rate")])

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamIncomplete)
    assert seen.tried == [("p1", "failed", "rate_limited"), ("p2", "partial", "rate_limited")]
    assert (len(fake.hits["p1"]), len(fake.hits["p2"])) == (1, 1)


async def test_when_all_targets_rest_the_caller_is_told_for_how_long(fake: FakeServer) -> None:
    fake.play("p1", [fails("rate", {"Retry-After": "40"})])
    fake.play("p2", [fails("rate", {"Retry-After": "20"})])

    async with open_theatre(fake) as theatre:
        await theatre.stream()
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamRateLimited)
    assert seen.end.retry_after_s == pytest.approx(20, abs=1)
    assert seen.attempts == []


async def test_comments_are_no_words(fake: FakeServer) -> None:
    fake.play("p1", [comment, comment, *good(TEXT)])

    async with open_theatre(fake, {}) as theatre:
        seen = await theatre.stream()

    assert "".join(seen.pieces) == TEXT


async def test_a_response_that_is_no_stream_is_a_failure(fake: FakeServer) -> None:
    fake.play("p1", [status(200, b"<html>hello</html>", {"Content-Type": "text/html"})])
    fake.play("p2", good(TEXT))

    async with open_theatre(fake) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT


async def test_a_chain_may_change_its_dialect(fake: FakeServer) -> None:
    fake.play("p1", [role(), err("overloaded")])
    fake.play("p2", [fails("overloaded")])
    fake.play("p3", good(TEXT))
    chain = [{"dialect": "anthropic"}, {"dialect": "gemini"}, {"dialect": "ollama"}]

    async with open_theatre(fake, *chain) as theatre:
        seen = await theatre.stream()

    assert (seen.reply.text, seen.reply.target) == (TEXT, "p3")
    assert [attempt.target for attempt in seen.attempts] == ["p1", "p2", "p3"]


async def test_resets_of_several_hosts_that_had_the_prompt_are_not_the_network(fake: FakeServer) -> None:
    fake.play("p1", [rst])
    fake.play("p2", [rst])
    elsewhere = {"url": fake.url("p2").replace("127.0.0.1", "localhost")}

    async with open_theatre(fake, {}, elsewhere) as theatre:
        seen = await theatre.stream()

    assert type(seen.end) is errors.UpstreamError
    assert {attempt.reason for attempt in seen.attempts} == {"server_error"}


async def test_no_log_line_tells_what_was_asked_or_answered(fake: FakeServer) -> None:
    fake.play("p1", [role(), txt(3, word="secretword"), cut])

    with capture_logs() as logged:
        async with open_theatre(fake, {}) as theatre:
            await theatre.stream()

    assert [line["event"] for line in logged] == ["chat attempt failed"]
    assert "secretword" not in str(logged)
    assert "refund" not in str(logged)


def call() -> Call:
    return Call(TenantId(UUID(int=1)), Deadline.after(10))


async def test_fifty_streams_at_once_keep_their_words_apart(fake: FakeServer) -> None:
    fake.play("p1", *[good(f"Answer {n} of fifty [1].") for n in range(50)])

    async with open_theatre(fake, {}) as theatre:
        replies = await asyncio.gather(*(theatre.chat.complete(asked(), call()) for _ in range(50)))

    assert all(isinstance(reply, Reply) for reply in replies)
    assert {reply.text for reply in replies} == {f"Answer {n} of fifty [1]." for n in range(50)}
