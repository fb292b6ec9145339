"""The door to the benchmarks."""

from __future__ import annotations

import argparse
import json

import pytest

from eval.__main__ import main as evaluate
from eval.bench.program import main
from eval.bench.registry import Benchmark
from eval.bench.result import Result, count
from eval.errors import CannotRun


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chunks", type=count, default=7)


def _run(arguments: argparse.Namespace) -> Result:
    return Result(arguments.name, {"chunks": arguments.chunks})


def _fail(_: argparse.Namespace) -> Result:
    raise CannotRun("no models")


KNOWN = {name: Benchmark(f"measures {name}", _options, _run) for name in ("ingest", "search")}


def test_a_benchmark_is_run_by_its_name_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["search", "--chunks", "3"], KNOWN)

    assert code == 0
    assert capsys.readouterr().out == 'chunks  3\n{"benchmark": "search", "chunks": 3}\n'


def test_without_a_name_all_are_run_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([], KNOWN)

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert code == 0
    assert found == [{"benchmark": "ingest", "chunks": 7}, {"benchmark": "search", "chunks": 7}]


def test_what_cannot_run_is_exit_two_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([], {"broken": Benchmark("never runs", _options, _fail), **KNOWN})

    assert code == 2
    assert capsys.readouterr() == ("", "cannot run: no models\n")


@pytest.mark.parametrize("argv", [["unknown"], ["search", "--chunks", "0"], ["search", "--chunks", "many"]])
def test_a_wrong_command_line_is_exit_two(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv, KNOWN)

    assert ended.value.code == 2


def test_the_judges_program_has_the_benchmarks_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        evaluate(["bench", "ingest", "--help"])

    assert ended.value.code == 0
    assert "--memory-chunks" in capsys.readouterr().out
