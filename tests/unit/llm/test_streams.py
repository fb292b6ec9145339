"""Whole answers in every dialect, however the network cuts them."""

from __future__ import annotations

import pytest

from rag.calls import Usage
from rag.llm.events import Alive, End, Text, UsageSeen
from tests.integration.llm.fake_steps import Tokens, comment, done, fin, good, ping, role, say, think
from tests.unit.llm.wire import DIALECTS, rendered, text_of, told, usage_of

TEXT = "Fünf\u2028Tage 🙂 [1]."
TOKENS = Tokens(input=1000, output=9, cached=900, reasoning=4)
RICH = [comment, role(TOKENS), ping, think(1), *good(TEXT, TOKENS)[1:]]
USAGE = {
    "openai": Usage(100, 900, 0, 9, 4),
    "anthropic": Usage(100, 900, 0, 9, None),
    "gemini": Usage(100, 900, 0, 9, 4),
    "ollama": Usage(1000, 0, 0, 9, None),
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_is_text_then_its_end_with_usage(dialect: str) -> None:
    events = await told([rendered(dialect, RICH)], dialect)

    assert text_of(events) == TEXT
    assert events[-1] == End("stop", USAGE[dialect])
    assert Alive() in events
    assert UsageSeen(USAGE[dialect]) in events
    assert all(event.text for event in events if isinstance(event, Text))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bug_08_and_20_every_split_of_the_body_tells_the_same(dialect: str) -> None:
    body = rendered(dialect, [*RICH[:-2], done])

    for at in range(len(body) + 1):
        events = await told([body[:at], body[at:]], dialect)
        assert text_of(events) == TEXT
        assert events[-1] == End("stop", USAGE[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_in_single_bytes_tells_the_same(dialect: str) -> None:
    body = rendered(dialect, RICH)

    events = await told([body[at : at + 1] for at in range(len(body))], dialect)

    assert text_of(events) == TEXT
    assert usage_of(events) == USAGE[dialect]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_cut_by_max_tokens_says_so(dialect: str) -> None:
    events = await told([rendered(dialect, [role(), say("Fünf"), fin("length", TOKENS), done])], dialect)

    assert events[-1] == End("length", USAGE[dialect])


@pytest.mark.parametrize(
    "content_type",
    [
        "text/event-stream; charset=iso-8859-1",
        "TEXT/Event-Stream",
        "text/event-stream;charset=utf-8",
        " text/event-stream ",
    ],
)
async def test_a_stream_is_utf_8_whatever_its_head_says(content_type: str) -> None:
    events = await told([rendered("openai", good(TEXT))], headers={"Content-Type": content_type})

    assert text_of(events) == TEXT


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_a_byte_order_mark_is_no_part_of_the_first_frame(dialect: str) -> None:
    body = b"\xef\xbb\xbf" + rendered(dialect, good(TEXT))

    for at in range(8):
        assert text_of(await told([body[:at], body[at:]], dialect)) == TEXT


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
async def test_lines_may_end_in_any_way(dialect: str, line_end: bytes) -> None:
    body = rendered(dialect, good(TEXT, TOKENS)).replace(b"\r\n", b"\n").replace(b"\n", line_end)

    for at in range(0, len(body), 7):
        events = await told([body[:at], body[at:]], dialect)
        assert (text_of(events), events[-1]) == (TEXT, End("stop", USAGE[dialect]))
