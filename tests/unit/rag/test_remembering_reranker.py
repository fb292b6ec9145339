from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

import pytest

from rag.inference.memory import PAIR_BYTES, RememberingReranker
from rag.protocols import Score
from rag.values import Deadline
from tests.fakes import FakeReranker

LATER = Deadline.after(3600)
ROOMY = 100 * PAIR_BYTES


LONG = [f"{n}" + " word" * 2_000 for n in range(50)]


class Counting:
    """Gives a new number for each text, and keeps nothing."""

    name = "counting"
    langs = None

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        return [float(query) + n / 100 for n in range(len(texts))]


def by_length(query: str, text: str) -> float:
    return float(len(query) * 100 + len(text))


async def test_a_pair_is_computed_once() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model, memory_bytes=ROOMY)

    first = await reranker.score("q", ["a", "bb"], LATER)
    again = await reranker.score("q", ["bb", "a"], LATER)

    assert first == [101.0, 102.0]
    assert again == [102.0, 101.0]
    assert model.calls == [("q", ["a", "bb"])]


async def test_only_the_missing_pairs_go_to_the_model_and_scores_stay_in_order() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model, memory_bytes=ROOMY)
    await reranker.score("q", ["bb"], LATER)

    scores = await reranker.score("q", ["a", "bb", "ccc"], LATER)

    assert scores == [101.0, 102.0, 103.0]
    assert model.calls[1:] == [("q", ["a", "ccc"])]


async def test_another_question_is_another_pair() -> None:
    reranker = RememberingReranker(FakeReranker(logit=by_length), memory_bytes=ROOMY)

    assert await reranker.score("q", ["ab"], LATER) == [102.0]
    assert await reranker.score("qa", ["b"], LATER) == [201.0]


async def test_what_the_deadline_left_out_is_asked_for_again() -> None:
    model = FakeReranker(logit=by_length, limit=1)
    reranker = RememberingReranker(model, memory_bytes=ROOMY)

    first = await reranker.score("q", ["a", "bb"], LATER)
    second = await reranker.score("q", ["a", "bb"], LATER)

    assert first == [101.0, "deadline"]
    assert second == [101.0, 102.0]


async def test_a_score_of_zero_is_remembered() -> None:
    model = FakeReranker(logit=lambda query, text: 0.0)
    reranker = RememberingReranker(model, memory_bytes=ROOMY)

    await reranker.score("q", ["a"], LATER)

    assert await reranker.score("q", ["a"], LATER) == [0.0]
    assert len(model.calls) == 1


async def test_the_oldest_scores_are_forgotten() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model, memory_bytes=2 * PAIR_BYTES)
    await reranker.score("q", ["a", "bb", "ccc"], LATER)

    await reranker.score("q", ["bb", "ccc"], LATER)
    await reranker.score("q", ["a"], LATER)

    assert model.calls[1:] == [("q", ["a"])]


async def test_without_memory_every_pair_is_computed_again() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model, memory_bytes=PAIR_BYTES - 1)

    assert [await reranker.score("q", ["a"], LATER) for _ in range(2)] == [[101.0], [101.0]]
    assert len(model.calls) == 2


@pytest.mark.parametrize("pairs", [1_000, 5_500, 12_000], ids="{} pairs".format)
async def test_the_scores_take_no_more_memory_than_allowed(pairs: int) -> None:
    reranker = RememberingReranker(Counting(), memory_bytes=pairs * PAIR_BYTES)
    gc.collect()
    tracemalloc.start()

    try:
        for n in range(3 * pairs // 50):
            await reranker.score(f"{n}", LONG, LATER)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < pairs * PAIR_BYTES + 300_000  # of one call: 50 digests, and the text of a pair


async def test_no_texts_need_no_model() -> None:
    model = FakeReranker()

    assert await RememberingReranker(model, memory_bytes=ROOMY).score("q", [], LATER) == []
    assert model.calls == []


async def test_lone_surrogates_can_be_remembered() -> None:
    assert await RememberingReranker(FakeReranker(logit=by_length), memory_bytes=ROOMY).score(
        "\ud800", ["\udfff"], LATER
    ) == [101.0]
