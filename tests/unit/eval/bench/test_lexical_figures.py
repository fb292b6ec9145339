"""What the lexical benchmark asks, and what its turns come to."""

from __future__ import annotations

import math

import pytest

from eval.bench.corpus import Vocabulary
from eval.bench.lexical import Run, figures, overlap
from eval.bench.lexical_corpus import write_chunks, write_questions
from eval.bench.lexical_peers import RankBM25, with_average_length
from rag.analysis import analyse
from rag.store.postings import weight

WORDS = [a + b + c for a in "bdfgklm" for b in "aeiou" for c in "nrstv"]


def test_rates_and_medians_stand_beside_each_other_with_the_overlap() -> None:
    found = Run()
    found.elapsed_ms["ours"].extend([10.0, 20.0, 30.0])
    found.elapsed_ms["bm25s"].extend([1.0, 4.0, 5.0])
    found.overlaps["bm25s"].extend([1.0, 0.9, 1.0])

    shown = figures(found)

    assert shown == {
        "qps": 50.0,  # three in 60 ms
        "p50_ms": 20.0,
        "qps_bm25s": 300.0,
        "p50_ms_bm25s": 4.0,
        "overlap_bm25s": 0.9667,
    }


@pytest.mark.parametrize(
    ("ours", "as_good", "share"),
    [
        ([1, 2], {1, 2}, 1.0),
        ([1, 3], {1, 2}, 0.5),
        ([1, 3], {1, 2, 3}, 1.0),  # 2 and 3 tie for the last place
        ([1], {1, 2, 3}, 0.5),
        ([7], {7}, 1.0),  # nothing else matches
    ],
)
def test_overlap_counts_any_of_those_that_tie(ours: list[int], as_good: set[int], share: float) -> None:
    assert overlap(ours, as_good, 2) == share


def test_questions_are_two_to_eight_terms_of_one_chunk_and_chunks_differ() -> None:
    vocabulary = Vocabulary(WORDS, ["ly"])

    chunks = write_chunks(vocabulary, 30, seed=1)
    questions = write_questions(chunks, 20, seed=2)

    assert len(set(chunks.texts)) == len(chunks.terms) == 30
    assert list(chunks.terms[0]) == analyse(chunks.texts[0])
    assert {len(asked.terms) for asked in questions} <= set(range(2, 9))
    assert all(any(set(asked.terms) <= set(terms) for terms in chunks.terms) for asked in questions)
    assert questions == write_questions(write_chunks(vocabulary, 30, seed=1), 20, seed=2)


@pytest.mark.parametrize("average", [12.0, 40.0, 100.0])
def test_k1_and_b_for_another_average_weigh_every_length_as_ours_do(average: float) -> None:
    k1, b = with_average_length(average)

    for tf, length in ((1, 1), (3, 40), (2, 250)):
        theirs = tf / (tf + k1 * (1 - b + b * length / average))
        assert theirs * 2.2 == pytest.approx(weight(tf, length))  # 2.2 is our k1 + 1, the same for every chunk


def test_our_pivot_as_the_average_keeps_our_k1_and_b() -> None:
    assert with_average_length(100.0) == pytest.approx((1.2, 0.75))


def test_rank_bm25_gives_the_published_scores_and_all_that_tie() -> None:
    peer = RankBM25([["train", "train"], ["boat", "train"], ["boat", "train"], ["plane"]])

    best = peer.best(["train"], 2)
    as_good = peer.as_good(["train"], 2)

    idf = math.log(1 + (4 - 3 + 0.5) / (3 + 0.5))
    assert best[0] == (0, pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 2 / 100))))
    assert best[1][0] in {1, 2}
    assert as_good == {0, 1, 2}


def test_rank_bm25_shows_no_chunk_without_a_term() -> None:
    peer = RankBM25([["train"], ["boat"], ["boat", "train"]])

    assert [number for number, _ in peer.best(["train"], 3)] == [0, 2]
    assert peer.as_good(["train"], 3) == {0, 2}
