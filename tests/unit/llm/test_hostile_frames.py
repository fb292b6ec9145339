"""Whatever JSON a service sends, it is events or a Failure, and what comes out can be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.llm.events import End, Event, Text
from rag.llm.failures import Failure
from rag.storable import storable
from tests.unit.llm.wire import DIALECTS, told

KEYS = (
    "choices", "delta", "content", "index", "finish_reason", "refusal", "usage", "prompt_tokens", "error", "code",
    "message", "details", "violations", "quotaId", "innererror", "retryDelay", "object", "status", "type", "text",
    "content_block", "stop_reason", "input_tokens", "output_tokens", "candidates", "parts", "thought", "finishReason",
    "promptFeedback", "blockReason", "usageMetadata", "promptTokenCount", "done", "done_reason", "eval_count",
)  # fmt: skip
WORDS = (
    "stop", "error", "message_start", "message_delta", "message_stop", "content_block_delta", "content_block_start",
    "text_delta", "text", "end_turn", "STOP", "SAFETY", "46s", "429", "\ud83d", "\ude42", "\0", " ", "Five",
)  # fmt: skip
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 600), st.sampled_from([1e308, float("inf"), float("nan"), 10**30]),
    st.sampled_from(WORDS), st.text(max_size=5),
)  # fmt: skip
VALUE = st.recursive(
    LEAF,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inside, max_size=4),
    max_leaves=12,
)


def text_frames(dialect: str, pieces: list[str]) -> list[Any]:
    """A whole answer of *pieces*, halves of characters and all."""
    if dialect == "openai":
        deltas = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        return [*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {}}, {"usage": {}}]
    if dialect == "anthropic":
        kind = {"type": "content_block_delta", "index": 0}
        deltas = [{**kind, "delta": {"type": "text_delta", "text": piece}} for piece in pieces]
        return [*deltas, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}]
    if dialect == "gemini":
        chunks = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
        return [*chunks, {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {}}]
    return [*({"message": {"content": piece}} for piece in pieces), {"done": True}]


def body(dialect: str, frames: list[Any]) -> list[bytes]:
    before, after = (b"", b"\n") if dialect == "ollama" else (b"data: ", b"\n\n")
    return [before + json.dumps(frame).encode() + after for frame in frames]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(frames=st.lists(VALUE, max_size=4))
async def test_no_frame_raises_anything_but_a_failure(dialect: str, frames: list[Any]) -> None:
    outcome = await told_or_failed(body(dialect, frames), dialect)

    if isinstance(outcome, Failure):
        assert storable(outcome.retry_after_s)
    else:
        assert isinstance(outcome[-1], End)
        assert any(event.text.strip() for event in outcome if isinstance(event, Text))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(frame=VALUE, status=st.sampled_from([200, 400, 403, 429, 500, 503]))
async def test_no_error_body_raises_anything_but_a_failure(dialect: str, frame: Any, status: int) -> None:
    with pytest.raises(Failure):
        await told(body("ollama", [frame]), dialect, status=status, headers={"Content-Type": "text/plain"})


@pytest.mark.parametrize("dialect", DIALECTS)
@given(pieces=st.lists(st.text(max_size=6) | st.sampled_from(WORDS), min_size=1, max_size=8))
async def test_text_comes_out_as_it_went_in_but_for_what_nothing_can_store(dialect: str, pieces: list[str]) -> None:
    whole = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")

    outcome = await told_or_failed(body(dialect, text_frames(dialect, pieces)), dialect)

    if isinstance(outcome, Failure):
        assert outcome.reason == "empty"
        assert not whole.replace("\ufffd", " ").strip()
    else:
        texts = [event.text for event in outcome if isinstance(event, Text)]
        assert "".join(texts) == whole
        assert all(text and storable(text) for text in texts)
        assert texts[0].strip()


async def told_or_failed(chunks: list[bytes], dialect: str) -> list[Event] | Failure:
    try:
        return await told(chunks, dialect)
    except Failure as failure:
        return failure
