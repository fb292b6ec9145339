from __future__ import annotations

import math

import numpy as np
import pytest

from rag.analysis import term_id
from rag.retrieval.lexical import TIES, WORTH_SAMPLING, accumulate, best, idf, nth_largest, query_terms
from rag.store.indexes import IndexState
from rag.store.postings import Block

FEE, PLAN = 7, 9


def block(term: int, ords: list[int], weights: list[float]) -> Block:
    return Block(term, np.array(ords, np.int32), np.array(weights, np.float32))


def state(posted: int, next_ord: int) -> IndexState:
    return IndexState(index_version=1, posted=posted, dead=0, next_ord=next_ord)


def scores_of(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("total", "n", "expected"),
    [(10, 3, math.log(22 / 7)), (4, 2, math.log(2)), (1, 1, math.log(4 / 3)), (0, 0, math.log(2))],
)
def test_idf_is_lucenes(total: int, n: int, expected: float) -> None:
    assert idf(total, n) == pytest.approx(expected)


def test_a_term_in_every_chunk_still_counts_a_little() -> None:
    assert idf(1_000_000, 1_000_000) > 0


def test_scores_add_idf_times_weight_over_terms_and_blocks() -> None:
    # fee is in 2 of 4 chunks: ln 2; plan in 1 of 4 and twice in the question: 2 ln (1 + 3.5 / 1.5)
    blocks = [block(FEE, [0], [1.0]), block(PLAN, [2], [2.0]), block(FEE, [2], [0.5])]

    scores = accumulate(blocks, {FEE: 1, PLAN: 2}, state(posted=4, next_ord=4))

    expected = [math.log(2), 0, 0.5 * math.log(2) + 2 * 2 * math.log(10 / 3), 0]
    assert scores.tolist() == pytest.approx(expected, rel=1e-6)


def test_the_order_of_blocks_changes_no_bit_of_a_score() -> None:
    blocks = [block(term, [0, 1], [0.1 * term, 0.3]) for term in range(1, 30)]
    terms = dict.fromkeys(range(1, 30), 1)

    forwards = accumulate(blocks, terms, state(10, 2))

    assert forwards.tobytes() == accumulate(blocks[::-1], terms, state(10, 2)).tobytes()


def test_no_blocks_score_nothing() -> None:
    assert accumulate([], {FEE: 1}, state(3, 3)).tolist() == [0, 0, 0]


def test_best_gives_the_highest_first() -> None:
    assert best(scores_of(0.5, 0.0, 2.0, 1.0), 2).tolist() == [2, 3]


def test_best_leaves_out_what_no_term_touched() -> None:
    assert best(scores_of(0.0, 1.0, 0.0), 10).tolist() == [1]
    assert best(scores_of(0.0, 0.0), 10).tolist() == []
    assert best(scores_of(), 10).tolist() == []


def test_best_brings_the_ties_of_the_last_one_along() -> None:
    assert best(scores_of(1, 3, 1, 1, 2, 1), 3).tolist() == [1, 4, 0, 2, 3, 5]


def test_best_brings_no_more_ties_than_can_be_verified() -> None:
    assert best(scores_of(*[1] * 2000), 10).tolist() == list(range(10 + TIES))


def test_best_is_a_prefix_of_a_longer_best() -> None:
    scores = np.random.default_rng(3).integers(0, 5, 200).astype(np.float32)

    short = best(scores, 20).tolist()

    assert short == best(scores, 100).tolist()[: len(short)]


def full_sort(scores: np.ndarray, limit: int) -> list[int]:
    """What `best` promises, by sorting everything."""
    order = [n for n in np.lexsort((np.arange(scores.size), -scores)).tolist() if scores[n] > 0]
    ties = [n for n in order[limit:] if scores[n] == scores[order[limit - 1]]]
    return order[:limit] + ties[:TIES]


@pytest.mark.parametrize("limit", [1, 50, 640, 2688])
@pytest.mark.parametrize("distinct", [1, 2, 10, 1000, 10**9])
@pytest.mark.parametrize("in_order", [False, True])
def test_best_of_very_many_is_what_a_full_sort_gives(limit: int, distinct: int, in_order: bool) -> None:
    rng = np.random.default_rng(limit + distinct)
    size = 6 * WORTH_SAMPLING
    scores = (rng.integers(1, distinct + 1, size) * (rng.random(size) < 0.7)).astype(np.float32)
    scores[rng.integers(0, size, limit // 2)] += 1  # a few above the rest
    scores = np.sort(scores) if in_order else scores

    assert best(scores, limit).tolist() == full_sort(scores, limit)


def test_the_nth_largest_is_found_though_the_sample_is_of_the_worst() -> None:
    stride = 16
    values = np.random.default_rng(5).random(stride * 4096).astype(np.float32) + 1
    values[::stride] = 0

    for n in (1, 100, values.size - 1):
        assert nth_largest(values, n) == np.sort(values)[-n]


def test_the_nth_largest_is_found_though_the_sample_is_of_the_best() -> None:
    stride = 16
    values = np.random.default_rng(6).random(stride * 4096).astype(np.float32)
    values[::stride] += 1

    for n in (1, 2000, 5000, 30_000):
        assert nth_largest(values, n) == np.sort(values)[-n]


def test_query_terms_count_repeats_and_read_the_question_in_every_language() -> None:
    terms = query_terms("Häuser Häuser fees", ["en", "de"])

    assert terms[term_id("haus")] == 2  # German stem
    assert terms[term_id("hauser")] == 2  # English
    assert terms[term_id("fee")] == 1


def test_a_term_that_two_languages_share_counts_once() -> None:
    assert query_terms("api", ["en", "de", "fr"]) == {term_id("api"): 1}


def test_a_tenant_without_documents_knows_no_terms() -> None:
    assert not query_terms("anything", [])
