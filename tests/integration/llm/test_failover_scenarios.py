"""The sixteen scenarios of Failover Bench (failoverbench/failoverbench, methodology v0.1) over every dialect.

The upstream here is our own fake, not theirs, and times are a tenth of theirs. What holds for every request (no more
than six upstream attempts, no hang, no cut answer that looks whole) is checked by the theatre.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from rag import errors
from tests.integration.llm.fake_server import FakeServer
from tests.integration.llm.fake_steps import (
    Tokens,
    blackhole,
    cut,
    done,
    eof,
    fails,
    fin,
    good,
    raw,
    role,
    rst,
    stall,
    txt,
)  # fmt: skip
from tests.integration.llm.theatre import SHORT, open_theatre

pytestmark = [pytest.mark.quiet, pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "ollama"])]

TEXT = "Five business days [1]."
OTHER = "A week [2]."
ALONE = ({},)
WORDS = "".join(f"word{n}" for n in range(1, 61))


def whole(*steps: object) -> list[object]:
    return [role(), *steps, fin(), done, eof]


async def test_S01_a_rate_limit_is_waited_for_as_long_as_it_says(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("rate", {"Retry-After": "0.2"})], good(TEXT))

    async with open_theatre(fake, *ALONE, dialect=dialect) as theatre:
        seen = await theatre.stream()

    first, second = (hit.arrived_at for hit in fake.hits["p1"])
    assert seen.reply.text == TEXT
    assert 0.18 <= second - first <= 0.4


async def test_S02_a_rate_limit_without_end_falls_back_after_few_attempts(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("rate")])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = [await theatre.stream() for _ in range(5)]

    assert [one.reply.text for one in seen] == [OTHER] * 5
    assert len(fake.hits["p1"]) == 1


async def test_S03_a_server_error_that_passes_is_answered(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("server")], good(TEXT))

    async with open_theatre(fake, *ALONE, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == TEXT
    assert len(fake.hits["p1"]) == 2


async def test_S04_an_overload_without_end_falls_back(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == OTHER
    assert seen.tried == [("p1", "failed", "overloaded"), ("p2", "answered", "")]


async def test_S05_a_reset_before_the_headers_falls_back(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [rst])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == OTHER
    assert seen.tried[0] == ("p1", "failed", "server_error")
    assert seen.attempts[0].usage.estimated
    assert (seen.attempts[0].usage.input or 0) > 0  # it had the prompt


async def test_S06_silence_falls_back_within_the_limit_of_the_first_word(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [blackhole])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, SHORT, {}, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == OTHER
    assert 1.0 <= seen.seconds <= 1.5
    assert seen.tried[0] == ("p1", "failed", "first_content_timeout")


async def test_S07_a_first_word_that_takes_too_long_falls_back(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), stall(2.0), txt(5), fin(), done])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, SHORT, {}, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert seen.reply.text == OTHER
    assert seen.seconds <= 1.5


async def test_S08_a_cut_after_forty_of_sixty_words_is_seen(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), txt(40), cut])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, dialect=dialect) as theatre:
        streamed = await theatre.stream()
        p2_hits = len(fake.hits["p2"])
        completed = await theatre.complete()

    assert isinstance(streamed.end, errors.UpstreamIncomplete)
    assert len(streamed.pieces) == 40
    assert p2_hits == 0
    assert streamed.tried == [("p1", "partial", "incomplete")]
    assert completed.reply.text == OTHER  # nothing of it was shown


async def test_S09_a_stall_after_twenty_words_is_seen_within_the_idle_limit(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), txt(20), stall(3.0), txt(20), fin(), done])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, SHORT, {}, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.UpstreamIncomplete)
    assert seen.tried == [("p1", "partial", "idle_timeout")]
    assert seen.seconds <= 1.5


async def test_S10_a_garbled_tenth_frame_loses_no_word_unseen(fake: FakeServer, dialect: str) -> None:
    garbage = b'{"message": {"con\n' if dialect == "ollama" else b'data: {"choices": [{"del\n\n'
    fake.play("p1", whole(txt(9), raw(garbage), txt(51, word="more")))

    async with open_theatre(fake, *ALONE, dialect=dialect) as theatre:
        seen = await theatre.stream()

    if isinstance(seen.end, errors.RagError):
        assert isinstance(seen.end, errors.UpstreamIncomplete)
    else:
        assert seen.end.text.split()[-1] == "more51"
        assert len(seen.end.text.split()) == 60


async def test_S11_a_stream_that_does_not_close_after_its_finish_is_over(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), txt(5), fin(), stall()])

    async with open_theatre(fake, *ALONE, dialect=dialect) as theatre:
        seen = await theatre.stream(within_s=20)

    assert seen.reply.finish == "stop"
    assert len(seen.reply.text.split()) == 5
    assert seen.seconds <= 8  # the contract's own limit, not a tenth of it


async def test_S12_too_long_a_prompt_is_said_once_or_read_by_a_larger_model(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("context_length")])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, *ALONE, dialect=dialect) as theatre:
        alone = await theatre.stream()
        hits = len(fake.hits["p1"])
    async with open_theatre(fake, {}, {"context_tokens": 100_000}, dialect=dialect) as theatre:
        with_larger = await theatre.stream()

    assert isinstance(alone.end, errors.ContextLength)
    assert hits == 1
    assert with_larger.reply.text == OTHER


async def test_S13_a_refusal_is_said_once_and_nobody_else_is_asked(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("policy")])
    fake.play("p2", good(OTHER))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    assert isinstance(seen.end, errors.ContentFiltered)
    assert (len(fake.hits["p1"]), len(fake.hits["p2"])) == (1, 0)


async def test_S14_the_cut_is_said_though_the_next_target_refuses(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [role(), txt(10), cut])
    fake.play("p2", [fails("malformed")])

    async with open_theatre(fake, dialect=dialect) as theatre:
        streamed = await theatre.stream()
        completed = await theatre.complete()

    for seen in (streamed, completed):
        assert isinstance(seen.end, errors.UpstreamIncomplete)
        assert seen.end.tried[0][:2] == ("p1", "incomplete")
    assert completed.end.tried[1][:2] == ("p2", "rejected")  # type: ignore[union-attr]


async def test_S15_an_outage_is_asked_seldom_and_is_over_soon_after_its_end(fake: FakeServer, dialect: str) -> None:
    scale = 1 / 40  # a minute of outage in 1.5 s, a call each 0.1 s
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(OTHER))
    async with open_theatre(fake, dialect=dialect, scale=scale) as theatre:
        began, seen = time.monotonic(), []
        while time.monotonic() - began < 60 * scale:
            seen.append(await theatre.stream(within_s=4.0))
            await asyncio.sleep(4 * scale)
        during = len(fake.hits["p1"])
        fake.play("p1", good(TEXT))
        over = time.monotonic()
        while (await theatre.stream(within_s=4.0)).reply.target != "p1":
            await asyncio.sleep(4 * scale)
            assert time.monotonic() - over < 30 * scale, "it is not back"

    assert {one.reply.text for one in seen} == {OTHER}
    assert len(seen) >= 10
    assert during <= 9  # five that opened it, then one for each time it was over


async def test_S16_the_answer_names_the_target_that_gave_it_and_what_it_took(fake: FakeServer, dialect: str) -> None:
    fake.play("p1", [fails("overloaded")])
    fake.play("p2", good(OTHER, Tokens(input=120, output=9)))

    async with open_theatre(fake, dialect=dialect) as theatre:
        seen = await theatre.stream()

    reply = seen.reply
    assert (reply.target, reply.model, reply.degraded) == ("p2", "model-2", None)
    assert (reply.usage.input, reply.usage.output, reply.usage.estimated) == (120, 9, False)
    assert [attempt.usage.output for attempt in seen.attempts] == [0, 9]
