from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rag.errors import SetupError, UpstreamError
from rag.protocols import Score
from rag.retrieval.rerank import score
from rag.values import Chunk, ContentId, Deadline
from tests.fakes import FakeReranker

LATER = Deadline(float("inf"))


class Replying(FakeReranker):
    """Gives what it was given, whatever it is asked."""

    def __init__(self, scores: list[Score]) -> None:
        super().__init__()
        self._scores = scores

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        return self._scores


@pytest.fixture
def chunks(chunk: Callable[..., Chunk]) -> dict[ContentId, Chunk]:
    return {content: chunk(n, n + 9) for n, content in enumerate(map(ContentId, "ab"))}


@pytest.mark.parametrize("error", [UpstreamError("503"), SetupError("the key is refused")], ids=repr)
async def test_a_cross_encoder_that_fails_costs_its_order_and_not_the_search(
    chunks: dict[ContentId, Chunk], error: Exception
) -> None:
    assert await score(FakeReranker(error), "q", chunks, deadline=LATER) == ({}, "failed")


async def test_every_chunk_that_was_scored_in_time_has_its_logit(chunks: dict[ContentId, Chunk]) -> None:
    whole = await score(FakeReranker(logit=lambda query, text: 1.5), "q", chunks, deadline=LATER)
    part = await score(FakeReranker(logit=lambda query, text: 1.5, limit=1), "q", chunks, deadline=LATER)

    assert whole == ({ContentId("a"): 1.5, ContentId("b"): 1.5}, None)
    assert part == ({ContentId("a"): 1.5}, "deadline")


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
async def test_a_score_that_is_not_finite_is_none(chunks: dict[ContentId, Chunk], odd: float) -> None:
    first, second = chunks
    chunks[first] = replace(chunks[first], indexed="what overflows")
    once = FakeReranker(logit=lambda query, text: odd if text == "what overflows" else 1.5)
    always = FakeReranker(logit=lambda query, text: odd)

    some = await score(once, "q", chunks, deadline=LATER)
    none = await score(always, "q", chunks, deadline=LATER)

    assert some == ({second: 1.5}, "failed")
    assert none == ({}, "failed")


async def test_the_reason_is_that_of_most_texts_without_a_logit(chunk: Callable[..., Chunk]) -> None:
    chunks = {content: chunk(n, n + 9) for n, content in enumerate(map(ContentId, "abcd"))}
    model = Replying([1.5, "failed", "busy", "busy"])

    assert await score(model, "q", chunks, deadline=LATER) == ({ContentId("a"): 1.5}, "busy")
