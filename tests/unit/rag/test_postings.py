from __future__ import annotations

import numpy as np
import pytest

from rag.analysis import term_id
from rag.store.postings import BLOCK, Block, build, merge, read, weight

FEE = term_id("fee")


def block(ords: list[int], weights: list[float] | None = None) -> Block:
    return Block(FEE, np.array(ords, np.int32), np.array(weights or [1.0] * len(ords), np.float32))


@pytest.mark.parametrize(
    ("tf", "length", "expected"),
    [
        (1, 100, 1.0),  # 1 x 2.2 / (1 + 1.2)
        (2, 100, 1.375),  # 2 x 2.2 / (2 + 1.2)
        (1, 20, 2.2 / 1.48),  # 1 + 1.2 x (0.25 + 0.75 x 0.2)
        (3, 200, 6.6 / 5.1),  # 3 + 1.2 x (0.25 + 0.75 x 2)
    ],
)
def test_weight_is_the_term_frequency_part_of_bm25(tf: int, length: int, expected: float) -> None:
    assert weight(tf, length) == pytest.approx(expected)


def test_build_numbers_the_chunks_and_weighs_repeats() -> None:
    blocks = {b.term: b for b in build([["fee", "fee"], [], ["fee", "plan"]])}

    assert blocks.keys() == {FEE, term_id("plan")}
    assert blocks[FEE].ords.tolist() == [0, 2]
    assert blocks[FEE].weights.tolist() == pytest.approx([weight(2, 2), weight(1, 2)])
    assert blocks[term_id("plan")].shifted(7).ords.tolist() == [9]


def test_build_gives_nothing_for_chunks_without_terms() -> None:
    assert list(build([[], []])) == []


def test_build_cuts_a_common_term_into_full_blocks() -> None:
    blocks = list(build([["fee"]] * (BLOCK + 1)))

    assert [len(b.ords) for b in blocks] == [BLOCK, 1]
    assert blocks[1].ords.tolist() == [BLOCK]


def test_a_block_survives_its_row() -> None:
    term, first, size, ords, weights = block([3, 5], [0.5, 1.25]).columns()

    again = read(term, ords, weights)

    assert (term, first, size) == (FEE, 3, 2)
    assert again.ords.tolist() == [3, 5]
    assert again.weights.tolist() == [0.5, 1.25]


def test_merge_sorts_blocks_and_drops_what_is_gone() -> None:
    live = np.array([0, 1, 3, 4], np.int32)

    [merged] = merge([block([3, 4], [3.0, 4.0]), block([0, 2], [0.5, 2.0])], live, live)

    assert merged.ords.tolist() == [0, 3, 4]
    assert merged.weights.tolist() == [0.5, 3.0, 4.0]


def test_merge_gives_nothing_when_every_chunk_is_gone() -> None:
    none = np.array([], np.int32)

    assert list(merge([block([0]), block([1])], none, none)) == []


def test_merge_fills_blocks() -> None:
    parts = [block([n]) for n in range(BLOCK + 2)]

    live = np.arange(BLOCK + 2, dtype=np.int32)

    assert [len(b.ords) for b in merge(parts, live, live)] == [BLOCK, 2]


def test_merge_gives_chunks_their_new_ordinals() -> None:
    old, new = np.array([2, 7, 2**31 - 2], np.int32), np.array([0, 1, 2], np.int32)

    [merged] = merge([block([2**31 - 2], [9.0]), block([1, 2, 7], [1.0, 2.0, 7.0])], old, new)

    assert merged.ords.tolist() == [0, 1, 2]
    assert merged.weights.tolist() == [2.0, 7.0, 9.0]
