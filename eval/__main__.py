"""`python -m eval`, `python -m rag.eval`, `rag eval`: judge a service; exit 0, 1 (gate failed) or 2 (could not run)."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

from eval.baseline import check_shared, compare, read_baseline
from eval.bench.program import main as bench
from eval.cache import main as calibrate
from eval.errors import CannotRun
from eval.gate import thresholds_beside, verdicts
from eval.public import Note, load_benchmark, measure
from eval.report import Report
from eval.run import announced, ask_all, asker, corpora
from eval.service import Asker, Service, local_service, remote_service, started_service
from eval.suite import Question, Suite, load, spread

PASSED, GATE_FAILED, COULD_NOT_RUN = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the run that *argv* asks for."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["bench"]:
        return bench(given[1:])
    if given[:1] == ["cache"]:
        return calibrate(given[1:])
    parser = _parser()
    arguments = parser.parse_args(given)
    if arguments.suite and (arguments.split or arguments.details or not arguments.rerank):
        parser.error("--split, --details and --no-rerank go with --beir")
    try:
        return asyncio.run(_judge_benchmark(arguments) if arguments.beir else _judge_suite(arguments))
    except (CannotRun, OSError) as exc:
        sys.stderr.write(f"cannot run: {exc}\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    return COULD_NOT_RUN


async def _judge_suite(arguments: argparse.Namespace) -> int:
    suite = load(arguments.suite)
    thresholds = thresholds_beside(arguments.suite)
    baseline = read_baseline(arguments.baseline) if arguments.baseline else None
    questions = spread(_asked(suite, arguments.tenant), arguments.limit)
    if baseline:
        check_shared(baseline, questions)
    async with _service(arguments, suite, questions) as service:
        run = await ask_all(service, questions, arguments.index)
    a_part = arguments.limit or arguments.tenant
    checks = verdicts(run.outcomes, thresholds.of_a_part() if a_part else thresholds)
    if a_part:  # a part of the suite may have no question of a kind
        checks = [check for check in checks if check.value is not None]
    comparison = None
    if baseline:
        comparison = compare(baseline, run.outcomes, sha256=suite.sha256, significance=thresholds.significance)
        checks += comparison.verdicts
    report = Report(suite.sha256, run, tuple(checks), comparison)
    _write(report, arguments)
    return PASSED if all(check.passed for check in checks) else GATE_FAILED


def _asked(suite: Suite, tenant: str | None) -> tuple[Question, ...]:
    questions = tuple(question for question in suite.questions if tenant in (None, question.tenant))
    if not questions:
        raise CannotRun(f"the suite has no question of tenant {tenant}")
    return questions


async def _judge_benchmark(arguments: argparse.Namespace) -> int:
    benchmark = load_benchmark(arguments.beir, arguments.split)
    with _details(arguments.details) as note:
        async with local_service([benchmark.source()], [Asker(benchmark.tenant)]) as service:
            result = await measure(service, benchmark, rerank=arguments.rerank, limit=arguments.limit, note=note)
    sys.stdout.write(json.dumps(result) + "\n")
    return PASSED


@contextmanager
def _details(path: Path | None) -> Iterator[Note]:
    """Where to note each query: a line of the file, if there is to be one, as soon as it is answered."""
    if path is None:
        yield lambda _: None
        return

    def write(noted: Mapping[str, object]) -> None:
        with _writing(path):
            file.write(f"{json.dumps(noted, ensure_ascii=False)}\n".encode())

    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb", buffering=0)
    with file:
        yield write


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CannotRun(f"--details: {path} cannot be written: {exc.strerror}") from exc


def _service(
    arguments: argparse.Namespace, suite: Suite, questions: Sequence[Question]
) -> AbstractAsyncContextManager[Service]:
    askers = dict.fromkeys(map(asker, questions))
    if arguments.against == "local" and arguments.keys:
        return started_service(arguments.keys, askers)
    if arguments.against == "local":
        throwaway = corpora(suite, questions)
        sys.stderr.write(announced(throwaway, len(questions)))
        return local_service(throwaway, askers)
    return remote_service(arguments.against, arguments.keys, askers)


def _write(report: Report, arguments: argparse.Namespace) -> None:
    page = report.as_markdown()
    sys.stdout.write(page)
    for path, text in ((arguments.json, report.as_json()), (arguments.report, page)):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rag eval",
        description="Judge a service by labelled questions.",
        epilog="`rag eval bench --help`: speed and memory; `rag eval cache --help`: similar questions.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--suite", type=Path, metavar="FILE", help="golden questions; thresholds are read from beside it")
    what.add_argument("--beir", type=Path, metavar="DIR", help="a benchmark in BEIR layout, against a local service")
    limit = "only N questions, at even distances; the gate then checks overall bars only"
    parser.add_argument("--limit", type=_count, metavar="N", help=limit)
    golden = parser.add_argument_group("with --suite")
    golden.add_argument("--against", default="local", metavar="local|URL", help="start a service, or ask one that runs")
    keys = 'of tenants that hold the corpus: [{"tenant", "groups", "key"}, ...]; without, local makes throwaway ones'
    golden.add_argument("--keys", type=Path, metavar="FILE", help=keys)
    golden.add_argument("--tenant", metavar="NAME", help="only its questions; the gate then checks overall bars only")
    golden.add_argument(
        "--index", choices=("current", "next"), help="ask this index, while `rag reindex` builds another"
    )
    golden.add_argument("--baseline", type=Path, metavar="FILE", help="an earlier --json to compare with")
    golden.add_argument("--json", type=Path, metavar="FILE", help="write the whole result")
    golden.add_argument("--report", type=Path, metavar="FILE", help="write the printed page")
    beir = parser.add_argument_group("with --beir")
    beir.add_argument("--split", metavar="NAME", help="read queries_NAME.jsonl and qrels_NAME.tsv")
    beir.add_argument("--details", type=Path, metavar="FILE", help="write a JSON line of each question: what was found")
    beir.add_argument("--no-rerank", dest="rerank", action="store_false", help="leave the order to the two legs")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
