from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rag.protocols import Vectors
from rag.retrieval.feedback import BEST, HEAD, by_the_best
from rag.values import ContentId

LIKE_THE_BEST, UNLIKE = np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)


def fused(count: int) -> dict[ContentId, float]:
    """Contents 0, 1, ... in this order, with scores from 1 down; only order and equality of the ids matter here."""
    return {key(n): 1 - n / count for n in range(count)}


def key(number: int) -> ContentId:
    return number  # type: ignore[return-value]


def vectors(order: Mapping[ContentId, float], like: set[int]) -> dict[ContentId, Vectors]:
    """The best are all alike, and so are those of *like*."""
    return {n: LIKE_THE_BEST if n in {*map(key, range(BEST)), *map(key, like)} else UNLIKE for n in order}


def test_what_is_like_the_best_comes_first_among_the_rest() -> None:
    order = fused(HEAD + 6)

    moved = by_the_best(order, vectors(order, {HEAD + 3, HEAD + 5}), weight=1.0)

    assert list(moved)[HEAD:] == [HEAD + 3, HEAD + 5, HEAD, HEAD + 1, HEAD + 2, HEAD + 4]


def test_the_head_stays_whatever_it_is_like() -> None:
    order = fused(HEAD + 6)

    moved = by_the_best(order, vectors(order, {HEAD - 1, HEAD + 5}), weight=100.0)

    assert list(moved.items())[:HEAD] == list(order.items())[:HEAD]


def test_the_scores_are_those_there_were_and_fall_with_the_order() -> None:
    order = fused(HEAD + 6)

    moved = by_the_best(order, vectors(order, {HEAD + 3, HEAD + 5}), weight=1.0)

    assert list(moved.values()) == list(order.values())


@pytest.mark.parametrize(("weight", "first"), [(0.01, HEAD), (1.0, HEAD + 1)], ids=["little", "much"])
def test_the_weight_says_how_much_nearness_counts(weight: float, first: int) -> None:
    order = fused(HEAD + 2)  # one place is 1/22 of a score

    moved = by_the_best(order, vectors(order, {HEAD + 1}), weight=weight)

    assert list(moved)[HEAD] == first


def test_the_best_count_by_their_scores() -> None:
    order = {key(n): 1.0 if n == 0 else 0.1 for n in range(HEAD + 2)}
    rows = {n: LIKE_THE_BEST if n in {key(0), key(HEAD + 1)} else UNLIKE for n in order}

    moved = by_the_best(order, rows, weight=1.0)

    assert list(moved)[HEAD:] == [HEAD + 1, HEAD]


def test_lengths_of_vectors_say_nothing() -> None:
    order = fused(HEAD + 2)
    rows = vectors(order, {HEAD + 1})
    rows[key(HEAD)] = 1000 * UNLIKE + LIKE_THE_BEST

    moved = by_the_best(order, rows, weight=1.0)

    assert list(moved)[HEAD:] == [HEAD + 1, HEAD]


@pytest.mark.parametrize("rows", [{}, {key(n): np.zeros(2, np.float32) for n in range(HEAD + 6)}], ids=["none", "zero"])
def test_without_vectors_nothing_moves(rows: dict[ContentId, Vectors]) -> None:
    order = fused(HEAD + 6)

    assert by_the_best(order, rows, weight=1.0) == order


def test_what_has_no_vector_is_like_nothing() -> None:
    order = fused(HEAD + 3)
    rows = vectors(order, {HEAD + 1, HEAD + 2})
    del rows[key(HEAD + 2)]

    moved = by_the_best(order, rows, weight=1.0)

    assert list(moved)[HEAD:] == [HEAD + 1, HEAD, HEAD + 2]


def test_no_more_than_the_head_stays() -> None:
    order = fused(HEAD)

    assert by_the_best(order, vectors(order, {HEAD - 1}), weight=1.0) == order
