from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rag.protocols import Vectors
from rag.ranking import Ranking
from rag.retrieval.feedback import HEAD
from rag.retrieval.order import Order
from rag.values import ContentId, LegResult

COUNT = HEAD + 2
LEG = LegResult.of([(n, 1 - n / COUNT) for n in range(COUNT)], index_version=1, generation=1)  # type: ignore[misc]
NONE = replace(LEG, ranked=())


def vectors(like_the_best: int) -> dict[ContentId, Vectors]:
    """Of the first, of *like_the_best* and of no other one is the same."""
    far, near = np.array([0.0, 1.0], np.float32), np.array([1.0, 0.0], np.float32)
    return {n: near if n in {*range(5), like_the_best} else far for n in range(COUNT)}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("legs", "ranking", "expected"),
    [
        ((LEG, LEG), Ranking(), True),
        ((LEG, NONE), Ranking(), True),
        ((NONE, LEG), Ranking(), False),
        ((LEG, LEG), Ranking(dense_weight=0), False),
        ((LEG, LEG), Ranking(fusion="rrf"), False),
        ((replace(LEG, ranked=LEG.ranked[:HEAD]), NONE), Ranking(), False),
    ],
    ids=[
        "both legs",
        "dense alone",
        "a late dense leg",
        "a dense leg without weight",
        "ranks",
        "no more than the head",
    ],
)
def test_feedback_is_for_scores_of_a_dense_leg(
    legs: tuple[LegResult, LegResult], ranking: Ranking, expected: bool
) -> None:
    assert Order.of(*legs, ranking).takes_feedback == expected


@pytest.mark.parametrize(("dense_weight", "first"), [(1.0, HEAD + 1), (0.01, HEAD)], ids=["much", "little"])
def test_feedback_counts_as_much_as_the_dense_leg(dense_weight: float, first: int) -> None:
    order = Order.of(LEG, LEG, Ranking(dense_weight=dense_weight))

    assert list(order.with_feedback(vectors(HEAD + 1)).fused)[HEAD] == first


def test_an_embedder_that_does_not_know_the_language_counts_half_in_feedback() -> None:
    weight = 1.5 / COUNT  # of the dense leg, beside 1: known it is worth more than a place, half of it less
    ranking = Ranking(dense_weight=weight)

    known = Order.of(LEG, LEG, ranking).with_feedback(vectors(HEAD + 1))
    unknown = Order.of(replace(LEG, fits=False), LEG, ranking).with_feedback(vectors(HEAD + 1))

    assert [list(known.fused)[HEAD], list(unknown.fused)[HEAD]] == [HEAD + 1, HEAD]
