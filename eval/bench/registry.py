"""The benchmarks there are, by the name they are run by."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from eval.bench import ingest, lexical, load, rerank
from eval.bench.result import Result


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What it measures in a few words, its options, and the run itself."""

    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Result]


BENCHMARKS = {
    "ingest": Benchmark("chunks a second beside the bare model, and memory", ingest.add_options, ingest.run),
    "lexical": Benchmark("questions a second of BM25, beside other engines", lexical.add_options, lexical.run),
    "load": Benchmark("latency and errors with many clients at once", load.add_options, load.run),
    "rerank": Benchmark("the cross-encoder beside its float32 weights in torch", rerank.add_options, rerank.run),
}
