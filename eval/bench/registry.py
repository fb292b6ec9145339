"""The benchmarks there are, by the name they are run by."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from eval.bench import filter as filter_
from eval.bench import ingest, lexical, load, rerank, scale, search
from eval.bench.result import Result


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What it measures in a few words, its options, and the run itself."""

    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Result]


BENCHMARKS = {
    "filter": Benchmark("recall, completeness and time of both legs under filters", filter_.add_options, filter_.run),
    "ingest": Benchmark("chunks a second beside the bare model, and memory", ingest.add_options, ingest.run),
    "search": Benchmark("a search over HTTP beside its bare parts", search.add_options, search.run),
    "scale": Benchmark("both legs in large tenants, and in small ones among many", scale.add_options, scale.run),
    "lexical": Benchmark("questions a second of BM25, beside other engines", lexical.add_options, lexical.run),
    "load": Benchmark("latency and errors with many clients at once", load.add_options, load.run),
    "rerank": Benchmark("the cross-encoder beside its float32 weights in torch", rerank.add_options, rerank.run),
}
