"""The formulas, by hand."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.metrics import mean, ndcg, percentile, ratio, recall, reciprocal_rank


def test_recall_is_the_share_of_gold_items_found_in_the_first_k() -> None:
    ranks = [1, 6, None, 50]

    assert [recall(ranks, k) for k in (1, 5, 10, 50)] == [1 / 4, 1 / 4, 2 / 4, 3 / 4]


def test_reciprocal_rank_takes_the_first_hit_only_and_counts_from_one() -> None:
    rows: list[list[int | None]] = [[1, 2], [2, 3], [None]]

    ranks = [reciprocal_rank(row, 10) for row in rows]

    assert ranks == [1.0, 0.5, 0.0]
    assert mean(ranks) == 0.5


def test_reciprocal_rank_is_zero_beyond_k() -> None:
    assert reciprocal_rank([15], 10) == 0.0
    assert reciprocal_rank([10], 10) == 1 / 10


def test_the_ideal_of_ndcg_counts_gold_that_was_not_found() -> None:
    value = ndcg([1, None, None], 3)

    assert value == 1 / (1 + 1 / log2(3) + 1 / 2)
    assert value == pytest.approx(0.4693, abs=1e-4)


def test_ndcg_of_two_items_in_one_chunk_at_rank_one_is_one() -> None:
    assert ndcg([1, 1], 10) == 1.0


def test_ndcg_counts_the_second_item_of_a_chunk_one_rank_later() -> None:
    assert ndcg([1, 1, 2], 10) == 1.0
    assert ndcg([3, 3], 10) == pytest.approx((1 / 2 + 1 / 2) / (1 + 1 / log2(3)))


def test_ndcg_ignores_what_stands_beyond_k() -> None:
    assert ndcg([11], 10) == 0.0


def test_ndcg_weighs_grades_linearly() -> None:
    ideal = 2 + 1 / log2(3)

    assert ndcg([2, 1], 10, [2, 1]) == pytest.approx((1 + 2 / log2(3)) / ideal)


def test_without_gold_no_ranking_metric_applies() -> None:
    assert [recall([], 5), reciprocal_rank([], 5), ndcg([], 5)] == [None, None, None]


def test_a_mean_leaves_out_what_does_not_apply() -> None:
    assert mean([1.0, None, 0.0]) == 0.5
    assert mean([None]) is None
    assert ratio(0, 0) is None


def test_percentiles_are_values_that_occurred() -> None:
    values = [5.0, 1.0, 2.0, 4.0, 3.0]

    assert [percentile(values, 50), percentile(values, 95), percentile([], 50)] == [3.0, 5.0, None]


@given(st.lists(st.none() | st.integers(1, 120), min_size=1, max_size=8), st.integers(1, 60))
def test_no_metric_leaves_zero_to_one_and_repeating_changes_nothing(ranks: list[int | None], k: int) -> None:
    before = list(ranks)

    first = [metric(ranks, k) for metric in (recall, reciprocal_rank, ndcg)]
    again = [metric(ranks, k) for metric in (recall, reciprocal_rank, ndcg)]

    assert all(value is not None and 0 <= value <= 1 + 1e-12 for value in first)
    assert first == again
    assert ranks == before
