"""What the retrieval benchmarks make of their times."""

from __future__ import annotations

import pytest

from eval.bench import filter as filter_
from eval.bench import scale, search
from eval.bench.bare_search import Bare
from eval.bench.oracle import Found
from eval.bench.result import Result, table


def test_ratios_of_a_search_are_by_the_median_of_its_bare_parts_together() -> None:
    bare = [Bare(embed=2, dense=3, postings=1), Bare(embed=2, dense=5, postings=1), Bare(embed=2, dense=4, postings=9)]
    times = search.Times(service=[9.0, 12.0, 16.0], bare=bare)

    figures = search.figures(times)

    assert figures["bare_p50_ms"] == 8  # of 6, 8 and 15
    assert figures["search_p50_ms"] == 6  # of 4, 6 and 13
    assert figures["bare_at_once_p50_ms"] == 7  # of 5, 7 and 9
    assert figures["p50_ratio"] == 1.5
    assert figures["p95_ms"] == pytest.approx(15.6)
    assert figures["p95_ratio"] == pytest.approx(15.6 / 8, abs=1e-3)


def test_stages_of_a_search_stand_beside_the_bare_parts() -> None:
    times = search.Times(service=[9.0], stages={"dense": [7.0]}, bare=[Bare(embed=2, dense=3, postings=1)])

    lines = [line.split() for line in search.stages(times).splitlines()]

    assert ["-", "dense", "7.00", "7.00", "7.00"] in lines
    assert ["bare", "total", "6.00", "6.00", "6.00"] in lines


def cell(*recalls: float | None, complete: bool = True, same: bool = True) -> filter_.Cell:
    dense = [Found(complete, recall, complete) for recall in recalls]
    lexical = [Found(True, 1.0, same) for _ in recalls]
    times = [float(n) for n in range(1, len(recalls) + 1)]
    return filter_.Cell(100, 0.5, "all", "fresh", 50, dense, lexical, times, times)


def test_the_least_recall_is_that_of_a_cell_and_empty_cells_have_none() -> None:
    figures = filter_.figures([cell(1.0, 1.0), cell(1.0, 0.9), cell(None, None)])

    assert figures["min_recall"] == 0.95
    assert figures["min_query_recall"] == 0.9
    assert figures["rows_complete"] is True
    assert figures["lexical_exact"] is True
    assert figures["questions"] == 6


def test_one_incomplete_or_inexact_answer_shows() -> None:
    figures = filter_.figures([cell(1.0, 1.0), cell(1.0, complete=False, same=False)])

    assert (figures["rows_complete"], figures["incomplete"]) == (False, 1)
    assert (figures["lexical_exact"], figures["inexact"]) == (False, 1)


def test_without_any_matching_row_there_is_no_recall() -> None:
    figures = filter_.figures([cell(None)])

    assert figures["min_recall"] is None
    assert cell(None).row()[5:7] == ("-", "-")


def test_the_ratio_of_a_small_tenant_is_among_many_by_alone() -> None:
    def times(*both: float) -> scale.Times:
        return scale.Times(dense=[1.0], lexical=[1.0], both=list(both))

    measured = scale.Measured({10: times(5, 7, 6)}, alone=times(4, 2, 3), among=times(6, 3, 9), in_turn=times(9))

    figures = scale.figures(measured)

    assert figures["small_tenant_ratio"] == 2.0
    assert figures["in_turn_ratio"] == 3.0
    assert figures["p50_ms_by_chunks"] == {"10": 6.0}


def test_a_table_is_as_wide_as_its_cells_and_stands_above_the_figures() -> None:
    result = Result("x", {"fine": True, "n": 1000}, table(("a", "bb"), [(1, "x"), (22, "y")]))

    assert result.as_table() == " a  bb\n 1   x\n22   y\n\nfine  True\nn     1,000\n"
    assert result.as_json() == '{"benchmark": "x", "fine": true, "n": 1000}\n'
