"""What the turns of the ingest benchmark come to."""

from __future__ import annotations

import json

from eval.bench.ingest import Ingested, Speed, memory_figures, speed_figures
from eval.bench.result import Result

SLOW = Ingested(documents=20, chunks=200, seconds=5.0, process_seconds=6.0, peak_rss_mb=300.0)  # 40 a second
FAST = Ingested(documents=20, chunks=200, seconds=4.0, process_seconds=5.0, peak_rss_mb=310.0)  # 50 a second
SPEED = Speed((SLOW, FAST), bares=(80.0, 62.5), ways={"alone": 79.0, "eight": 70.0}, way="alone")


def test_the_better_turns_of_both_are_compared() -> None:
    figures = speed_figures(SPEED)

    assert figures["chunks_per_s"] == 200 / 4
    assert figures["bare_chunks_per_s"] == 80.0
    assert figures["ratio"] == 0.625  # 50 / 80
    assert figures["chunks_per_s_with_start"] == 200 / 5
    assert (figures["turns"], figures["bare_turns"]) == ([40.0, 50.0], [80.0, 62.5])
    assert (figures["bare_way"], figures["chunks"], figures["documents"]) == ("alone", 200, 20)


def test_the_bare_model_is_as_fast_as_it_was_ever_seen_the_chosen_way() -> None:
    seen = Speed((FAST,), bares=(50.0, 62.5), ways={"alone": 100.0, "eight": 110.0}, way="alone")

    figures = speed_figures(seen)

    assert (figures["bare_chunks_per_s"], figures["ratio"]) == (100.0, 0.5)
    assert figures["noise"] == 2.0  # 100 / 50


def test_growth_is_the_large_runs_peak_less_the_small_ones() -> None:
    small = Ingested(documents=10, chunks=90, seconds=1.0, process_seconds=2.0, peak_rss_mb=200.0)
    large = Ingested(documents=100, chunks=910, seconds=7.0, process_seconds=8.0, peak_rss_mb=260.5)

    figures = memory_figures(SPEED, (small, large))

    assert figures["rss_growth_mb"] == 60.5
    assert (figures["peak_rss_mb_small"], figures["peak_rss_mb_large"]) == (200.0, 260.5)
    assert (figures["small_chunks"], figures["large_chunks"], figures["large_chunks_per_s"]) == (90, 910, 130.0)
    assert figures["peak_rss_mb"] == 310.0  # of every run, those for speed too


def test_without_the_memory_runs_the_peak_is_that_of_the_others() -> None:
    assert memory_figures(SPEED, ()) == {"peak_rss_mb": 310.0}


def test_the_last_line_is_json_with_every_figure_and_the_table_says_the_same() -> None:
    figures = {**speed_figures(SPEED), **memory_figures(SPEED, ())}

    result = Result("ingest", figures)

    assert json.loads(result.as_json()) == {"benchmark": "ingest", **figures}
    assert result.as_json().count("\n") == 1
    rows = dict(line.split("  ", 1) for line in result.as_table().splitlines())
    assert {name: value.strip() for name, value in rows.items()}["ratio"] == "0.625"
    assert {name.strip() for name in rows} == set(figures)
