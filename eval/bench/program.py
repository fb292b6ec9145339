"""`python -m eval bench [NAME]`: run one benchmark or all; exit 0, or 2 when one could not run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from eval.bench.registry import BENCHMARKS, Benchmark
from eval.errors import CannotRun
from rag.errors import RagError

RAN, COULD_NOT_RUN = 0, 2


def main(argv: Sequence[str], benchmarks: Mapping[str, Benchmark] = BENCHMARKS) -> int:
    """The exit code of the benchmarks that *argv* asks for; without a name, of all of them."""
    parser = _parser(benchmarks)
    asked = [argv] if argv else [[name] for name in benchmarks]
    try:
        for one in asked:
            arguments = parser.parse_args(one)
            result = benchmarks[arguments.name].run(arguments)
            sys.stdout.write(result.as_table() + result.as_json())
            sys.stdout.flush()
    except (CannotRun, RagError, OSError) as exc:
        sys.stderr.write(f"cannot run: {exc}\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    else:
        return RAN
    return COULD_NOT_RUN


def _parser(benchmarks: Mapping[str, Benchmark]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rag eval bench", description="Measure speed and memory in a throwaway RAG_HOME; without a name, all there is."
    )
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, benchmark in benchmarks.items():
        benchmark.add_options(names.add_parser(name, help=benchmark.summary, description=benchmark.summary))
    return parser
