from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Mapping

import pytest

from rag.retrieval.fusion import by_scores, rrf, scaled
from rag.retrieval.rerank import blend, by_logit, relevance
from rag.values import ContentId, LegResult


def leg(scores: Mapping[str, float], *, floor: float | None = None) -> LegResult:
    """A leg's ranking; single letters stand for ids, of which only order and equality matter here."""
    found = sorted(scores.items(), key=lambda pair: -pair[1])
    result = LegResult.of([(key(item), score) for item, score in found], index_version=1, generation=1)
    return LegResult(result.ranked, 1, floor=floor)


def key(letter: str) -> ContentId:
    return letter  # type: ignore[return-value]


def keyed(scores: Mapping[str, float]) -> dict[ContentId, float]:
    return {key(letter): score for letter, score in scores.items()}


def test_each_leg_gives_one_to_its_best_nothing_to_its_last_and_the_mean_counts() -> None:
    dense = leg({"a": 0.9, "b": 0.7, "c": 0.5})  # 1, 1/2, 0
    lexical = leg({"b": 30.0, "d": 15.0, "a": 10.0})  # 1, 1/4, 0

    fused = by_scores([dense, lexical], weights=[1, 1])

    assert list(dict(fused)) == ["b", "a", "d", "c"]
    assert dict(fused) == pytest.approx({"b": 0.75, "a": 0.5, "d": 0.125, "c": 0.0})


def test_a_best_that_stands_out_beats_a_best_among_equals() -> None:
    sure = leg({"a": 9.0, "b": 1.0, "c": 0.9, "d": 0.8})
    unsure = leg({"b": 0.51, "c": 0.505, "a": 0.504, "d": 0.50})

    assert [item for item, _ in by_scores([sure, unsure], weights=[1, 1])] == ["a", "b", "c", "d"]


def test_weights_scale_a_leg() -> None:
    fused = by_scores([leg({"a": 1.0, "b": 0.0}), leg({"b": 1.0, "a": 0.0})], weights=[1, 3])

    assert fused == [("b", 0.75), ("a", 0.25)]


def test_a_leg_with_weight_zero_is_left_out_altogether() -> None:
    assert by_scores([leg({"a": 2.0, "b": 1.0}), leg({"x": 1.0})], weights=[1, 0]) == [("a", 1.0), ("b", 0.0)]


def test_above_a_floor_the_last_is_worth_something() -> None:
    assert by_scores([leg({"a": 8.0, "b": 2.0}, floor=0.0), leg({})], weights=[1, 1]) == [("a", 0.5), ("b", 0.125)]


@pytest.mark.parametrize("weights", [[0, 0], [-1, 1], [math.nan, 1], [math.inf, 1], [1], [1, 1, 1]])
def test_weights_that_make_no_order_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="one weight for each leg"):
        by_scores([leg({"a": 1.0}), leg({"b": 1.0})], weights=weights)


def test_equal_scores_go_by_best_rank_and_then_by_id() -> None:
    # y and a get 1/2 each, y once as the best of a leg; so does b, whose id is lower
    fused = by_scores([leg({"y": 2.0, "a": 1.5, "c": 1.0}), leg({"b": 2.0, "a": 1.5, "d": 1.0})], weights=[1, 1])

    assert [item for item, _ in fused] == ["b", "y", "a", "c", "d"]


def test_by_ranks_each_leg_adds_the_reciprocal_of_sixty_and_rank() -> None:
    fused = rrf([leg({"a": 9.0, "b": 0.2, "c": 0.1}), leg({"b": 3.0, "a": 2.0})], weights=[1, 1])

    assert fused == [("a", 1 / 61 + 1 / 62), ("b", 1 / 62 + 1 / 61), ("c", 1 / 63)]


def test_by_ranks_weights_scale_a_leg_and_what_it_has_not_earns_nothing() -> None:
    fused = rrf([leg({"a": 2.0, "b": 1.0}), leg({"b": 2.0})], weights=[1, 3])

    assert fused == [("b", 1 / 62 + 3 / 61), ("a", 1 / 61)]


def test_where_all_are_equal_all_are_the_best() -> None:
    assert by_scores([leg({"b": 3.0, "a": 3.0}), leg({"b": 0.5})], weights=[1, 1]) == [("b", 1.0), ("a", 0.5)]


def test_two_empty_legs_fuse_to_nothing() -> None:
    assert by_scores([leg({}), leg({})], weights=[1, 1]) == []


def test_the_order_of_the_legs_does_not_matter() -> None:
    rng = random.Random(7)
    for _ in range(50):
        legs = [leg({item: rng.choice([1.0, 2.0, 3.0]) for item in rng.sample("abcdefgh", 6)}) for _ in range(2)]

        assert by_scores(legs, weights=[1, 1]) == by_scores(legs[::-1], weights=[1, 1])


def test_fresh_processes_agree_whatever_their_hash_seed() -> None:
    program = (
        "from rag.retrieval.fusion import by_scores; from rag.values import LegResult;"
        "legs = [LegResult.of([(c, 1.0) for c in text], index_version=1, generation=1)"
        " for text in ('hgfedcba', 'abcdefgh', 'dgz')];"
        "print(by_scores(legs, weights=[1, 1, 1]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }  # fmt: skip

    assert len(outputs) == 1


def test_scaled_scores_reach_from_nothing_to_one() -> None:
    assert scaled(keyed({"a": -3.0, "b": 1.0, "c": -1.0})) == {"a": 0.0, "b": 1.0, "c": 0.5}
    assert scaled({}) == {}


def test_relevance_is_half_how_a_logit_compares_and_half_how_sure_it_is() -> None:
    # the logistic of a half of each logit, since it is softened by 2: 9/10, 1/2, 1/10
    logits = keyed({"a": 2 * math.log(9), "b": 0.0, "c": -2 * math.log(9)})

    assert relevance(logits) == pytest.approx(keyed({"a": 0.95, "b": 0.5, "c": 0.05}))


def test_the_best_of_a_bad_lot_is_less_relevant_than_a_good_one() -> None:
    bad, good = relevance(keyed({"a": -8.0, "b": -11.0})), relevance(keyed({"a": 8.0, "b": -11.0}))

    assert bad[key("a")] < 0.52
    assert good[key("a")] > 0.98


def test_the_blend_is_the_weighted_mean_of_fused_score_and_relevance() -> None:
    fused, logits = keyed({"a": 0.9, "b": 0.6}), keyed({"a": 0.0, "b": 2 * math.log(4)})

    blended = blend(fused, logits, fused_weight=3, rerank_weight=1)

    assert list(dict(blended)) == ["a", "b"]
    assert dict(blended) == pytest.approx({"a": (3 * 0.9 + 0.25) / 4, "b": (3 * 0.6 + 0.9) / 4})


def test_the_blend_keeps_the_fused_order_on_equal_scores() -> None:
    blended = blend(keyed({"b": 0.5, "a": 0.5}), keyed({"a": 1.0, "b": 1.0}), fused_weight=1, rerank_weight=1)

    assert [item for item, _ in blended] == ["b", "a"]


def test_what_was_not_scored_counts_as_the_worst_that_was() -> None:
    fused = keyed({"a": 1.0, "b": 0.8, "c": 0.4})

    blended = dict(blend(fused, keyed({"a": 0.0, "b": 2 * math.log(4)}), fused_weight=1, rerank_weight=1))

    assert list(blended) == ["b", "a", "c"]
    assert blended == pytest.approx({"b": 0.85, "a": 0.625, "c": 0.325})


def test_scored_chunks_go_by_logit_and_ties_by_fused_order() -> None:
    a, b, c, d = map(key, "abcd")

    assert by_logit([a, b, c, d], {c: 2.5, b: -1.0, a: -1.0}) == [c, a, b]
