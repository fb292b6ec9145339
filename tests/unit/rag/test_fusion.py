from __future__ import annotations

import math
import os
import random
import subprocess
import sys

import pytest

from rag.retrieval.fusion import rrf
from rag.retrieval.rerank import blend, by_logit
from rag.values import ChunkId


def ids(text: str) -> list[ChunkId]:
    """Single letters stand for ids: only equality and order matter here."""
    return list(text)  # type: ignore[arg-type]


def test_each_ranking_adds_the_reciprocal_of_sixty_and_rank() -> None:
    fused = rrf(["abc", "ba"], weights=[1, 1])

    assert fused == [("a", 1 / 61 + 1 / 62), ("b", 1 / 62 + 1 / 61), ("c", 1 / 63)]


def test_an_id_missing_from_a_ranking_earns_nothing_from_it() -> None:
    fused = dict(rrf(["ab", "bc"], weights=[1, 1]))

    assert fused["a"] == 1 / 61
    assert fused["c"] == 1 / 62
    assert fused["b"] == 1 / 62 + 1 / 61


def test_weights_scale_a_ranking() -> None:
    assert rrf(["ab", "ba"], weights=[1, 3]) == [("b", 1 / 62 + 3 / 61), ("a", 1 / 61 + 3 / 62)]


def test_a_ranking_with_weight_zero_is_left_out_altogether() -> None:
    assert rrf(["ab", "xyz"], weights=[1, 0]) == [("a", 1 / 61), ("b", 1 / 62)]


@pytest.mark.parametrize("weights", [[0, 0], [-1, 1], [math.nan, 1], [math.inf, 1], [1], [1, 1, 1]])
def test_weights_that_make_no_order_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="one weight for each ranking"):
        rrf(["ab", "ba"], weights=weights)


def test_equal_scores_go_by_id() -> None:
    assert [item for item, _ in rrf(["ba", "ab"], weights=[1, 1])] == ["a", "b"]
    assert [item for item, _ in rrf(["z", "y", "x"], weights=[1, 1, 1])] == ["x", "y", "z"]


def test_equal_scores_go_by_best_rank_before_id() -> None:
    # k = 0: z is first once (1/1 = 1), a is second twice (1/2 + 1/2 = 1)
    fused = rrf(["za", "xa"], weights=[1, 1], k=0)

    assert [item for item, _ in fused] == ["x", "z", "a"]


@pytest.mark.parametrize(("dense", "lexical"), [("", "ab"), ("ab", "")])
def test_one_empty_side_leaves_the_other_as_it_is(dense: str, lexical: str) -> None:
    assert rrf([dense, lexical], weights=[1, 1]) == [("a", 1 / 61), ("b", 1 / 62)]


def test_two_empty_sides_fuse_to_nothing() -> None:
    assert rrf(["", ""], weights=[1, 1]) == []


def test_the_order_of_the_rankings_does_not_matter() -> None:
    rng = random.Random(7)
    for _ in range(50):
        rankings = [rng.sample("abcdefgh", rng.randint(0, 8)) for _ in range(2)]

        assert rrf(rankings, weights=[1, 1]) == rrf(rankings[::-1], weights=[1, 1])


def test_fresh_processes_agree_whatever_their_hash_seed() -> None:
    program = "from rag.retrieval.fusion import rrf; print(rrf(['hgfedcba', 'abcdefgh', 'dgz'], weights=[1, 1, 1]))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }  # fmt: skip

    assert len(outputs) == 1


def test_blend_fuses_both_orders_with_a_steep_k() -> None:
    blended = blend(ids("abc"), ids("ca"), fused_weight=2, rerank_weight=1)

    assert blended == [("a", 2 / 6 + 1 / 7), ("c", 2 / 8 + 1 / 6), ("b", 2 / 7)]


def test_blend_keeps_the_fused_order_on_equal_scores() -> None:
    blended = blend(ids("ba"), ids("ab"), fused_weight=1, rerank_weight=1)

    assert [item for item, _ in blended] == ["b", "a"]


def test_blend_keeps_what_was_not_scored() -> None:
    assert {item for item, _ in blend(ids("abcd"), ids("d"), fused_weight=2, rerank_weight=1)} == set("abcd")


def test_scored_chunks_go_by_logit_and_ties_by_fused_order() -> None:
    a, b, c, d = ids("abcd")

    assert by_logit([a, b, c, d], {c: 2.5, b: -1.0, a: -1.0}) == [c, a, b]
