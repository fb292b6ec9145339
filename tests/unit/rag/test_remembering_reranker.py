from __future__ import annotations

from rag.inference.memory import RememberingReranker
from rag.values import Deadline
from tests.fakes import FakeReranker

LATER = Deadline.after(3600)


def by_length(query: str, text: str) -> float:
    return float(len(query) * 100 + len(text))


async def test_a_pair_is_computed_once() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model)

    first = await reranker.score("q", ["a", "bb"], LATER)
    again = await reranker.score("q", ["bb", "a"], LATER)

    assert first == [101.0, 102.0]
    assert again == [102.0, 101.0]
    assert model.calls == [("q", ["a", "bb"])]


async def test_only_the_missing_pairs_go_to_the_model_and_scores_stay_in_order() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model)
    await reranker.score("q", ["bb"], LATER)

    scores = await reranker.score("q", ["a", "bb", "ccc"], LATER)

    assert scores == [101.0, 102.0, 103.0]
    assert model.calls[1:] == [("q", ["a", "ccc"])]


async def test_another_question_is_another_pair() -> None:
    reranker = RememberingReranker(FakeReranker(logit=by_length))

    assert await reranker.score("q", ["ab"], LATER) == [102.0]
    assert await reranker.score("qa", ["b"], LATER) == [201.0]


async def test_what_the_deadline_left_out_is_asked_for_again() -> None:
    model = FakeReranker(logit=by_length, limit=1)
    reranker = RememberingReranker(model)

    first = await reranker.score("q", ["a", "bb"], LATER)
    second = await reranker.score("q", ["a", "bb"], LATER)

    assert first == [101.0, None]
    assert second == [101.0, 102.0]


async def test_a_score_of_zero_is_remembered() -> None:
    model = FakeReranker(logit=lambda query, text: 0.0)
    reranker = RememberingReranker(model)

    await reranker.score("q", ["a"], LATER)

    assert await reranker.score("q", ["a"], LATER) == [0.0]
    assert len(model.calls) == 1


async def test_the_oldest_scores_are_forgotten() -> None:
    model = FakeReranker(logit=by_length)
    reranker = RememberingReranker(model, size=2)
    await reranker.score("q", ["a", "bb", "ccc"], LATER)

    await reranker.score("q", ["bb", "ccc"], LATER)
    await reranker.score("q", ["a"], LATER)

    assert model.calls[1:] == [("q", ["a"])]


async def test_no_texts_need_no_model() -> None:
    model = FakeReranker()

    assert await RememberingReranker(model).score("q", [], LATER) == []
    assert model.calls == []


async def test_lone_surrogates_can_be_remembered() -> None:
    assert await RememberingReranker(FakeReranker(logit=by_length)).score("\ud800", ["\udfff"], LATER) == [101.0]
