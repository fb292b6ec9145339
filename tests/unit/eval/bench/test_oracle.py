"""The truth beside which both legs are judged, worked out by hand."""

from __future__ import annotations

import math
from collections import Counter
from uuid import UUID

import numpy as np
import pytest

from eval.bench.oracle import Query, Truth, judge
from eval.bench.synthetic import LONGEST, Chunks
from rag.values import ContentId, Ranked

IDS = [ContentId(UUID(int=n)) for n in range(6)]
ROWS = {content: row for row, content in enumerate(IDS)}
SCORES = np.array([0.9, 0.8, 0.7, 0.7, 0.1, 0.95])
SEEN = np.array([True, True, True, True, True, False])


def chunks(*rows: list[int], first_document: int = 0) -> Chunks:
    words = np.full((len(rows), LONGEST), -1, np.int32)
    for n, row in enumerate(rows):
        words[n, : len(row)] = row
    vectors = np.zeros((len(rows), 384), np.float32)
    vectors[np.arange(len(rows)), np.arange(len(rows))] = 1
    no = np.zeros(len(rows), np.bool_)
    document = np.arange(first_document, first_document + len(rows), dtype=np.int32)
    return Chunks(vectors, words, np.array(list(map(len, rows)), np.int32), document, np.zeros(len(rows)), no, no)


def query(*words: int) -> Query:
    return Query("a question", np.array([0.6, 0.8, *[0] * 382], np.float32), Counter(words))


def ranked(*rows: int, by: float = 0.0) -> list[Ranked]:
    return [Ranked(IDS[row], rank, SCORES[row] + by) for rank, row in enumerate(rows, 1)]


def test_bm25_is_worked_out_by_hand() -> None:
    truth = Truth([chunks([1, 1, 2, 3], [2])], IDS[:2])

    scores = truth.bm25(query(1, 1, 9), total=2)

    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    weight = 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 100))
    assert scores == pytest.approx([2 * idf * weight, 0])


def test_deleted_chunks_still_count_for_the_idf_of_their_words() -> None:
    truth = Truth([chunks([1], [1], [2])], IDS[:3])

    truth.delete([0])

    assert truth.alive.tolist() == [False, True, True]
    assert truth.bm25(query(1), total=3)[1] == pytest.approx(math.log(1 + 1.5 / 2.5) * 2.2 / (1 + 1.2 * 0.2575))


def test_what_is_appended_comes_after_all_others() -> None:
    truth = Truth([chunks([1], [2])], IDS[:2])

    truth.append(chunks([3], first_document=7), [IDS[2]])

    assert truth.rows == {IDS[0]: 0, IDS[1]: 1, IDS[2]: 2}
    assert truth.chunks.document.tolist() == [0, 1, 7]
    assert truth.alive.tolist() == [True, True, True]


def test_similarity_is_the_cosine() -> None:
    truth = Truth([chunks([1], [2], [3])], IDS[:3])

    assert truth.similarities(query(1)) == pytest.approx([0.6, 0.8, 0])


def test_either_of_two_rows_tied_at_the_end_is_right() -> None:
    for last in (2, 3):
        found = judge(ranked(0, 1, last), ROWS, SCORES, SEEN, depth=3)

        assert (found.complete, found.recall, found.same) == (True, 1.0, True)


def test_a_farther_row_in_place_of_a_nearer_one_costs_recall() -> None:
    found = judge(ranked(0, 1, 4), ROWS, SCORES, SEEN, depth=3)

    assert (found.complete, found.recall, found.same) == (True, pytest.approx(2 / 3), False)


def test_too_few_rows_are_incomplete_even_if_they_are_the_best() -> None:
    found = judge(ranked(0, 1), ROWS, SCORES, SEEN, depth=3)

    assert (found.complete, found.recall, found.same) == (False, pytest.approx(2 / 3), False)


def test_a_row_that_the_filter_hides_is_a_fault() -> None:
    found = judge(ranked(5, 0, 1), ROWS, SCORES, SEEN, depth=3)

    assert not found.complete
    assert not found.same


def test_a_row_that_nobody_wrote_is_a_fault() -> None:
    stranger = Ranked(ContentId(UUID(int=99)), 3, 0.7)

    found = judge([*ranked(0, 1), stranger], ROWS, SCORES, SEEN, depth=3)

    assert (found.complete, found.recall, found.same) == (False, pytest.approx(2 / 3), False)


def test_a_row_given_twice_is_a_fault() -> None:
    found = judge(ranked(0, 0, 1), ROWS, SCORES, SEEN, depth=3)

    assert not found.complete


def test_other_scores_for_the_right_rows_are_not_the_same() -> None:
    found = judge(ranked(0, 1, 2, by=0.002), ROWS, SCORES, SEEN, depth=3)

    assert (found.complete, found.recall, found.same) == (True, 1.0, False)


def test_where_nothing_matches_nothing_is_right_and_has_no_recall() -> None:
    nothing = np.zeros(6, np.bool_)

    assert judge([], ROWS, SCORES, nothing, depth=3).complete
    assert judge([], ROWS, SCORES, nothing, depth=3).recall is None
    assert not judge(ranked(0), ROWS, SCORES, nothing, depth=3).complete


def test_fewer_matches_than_places_are_all_wanted() -> None:
    few = np.array([True, False, False, True, False, False])

    assert judge(ranked(0, 3), ROWS, SCORES, few, depth=3).same
    assert judge(ranked(0), ROWS, SCORES, few, depth=3).recall == 0.5
