"""How fast our cross-encoder is beside its weights in float32 in sentence-transformers, and what int8 costs in quality.

Both score the same pairs in turns, question by question, with the same limit of tokens. `ratio` is of elapsed time,
which on a busy machine flatters whoever waits less for his own threads; `cpu_ratio` is of the time on all cores. The
reference is sentence_transformers.CrossEncoder as it comes: torch, all cores, batches of 32 sorted by length. Its
weights are ours dequantised to float32, since it is our file that is judged: what is compared is our int8 arithmetic
with exact arithmetic on the same weights. `--beir` compares the quality, on the benchmark's best 50 by BM25.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from eval.bench.corpus import Vocabulary
from eval.bench.home import Home, throwaway_home
from eval.bench.processes import last_words, running
from eval.bench.rerank_tasks import CANDIDATES, Task, candidates, written
from eval.bench.result import Result, count
from eval.errors import CannotRun
from eval.metrics import mean, percentile
from eval.public import load_benchmark, score
from rag.inference.onnx import MAX_PAIR_TOKENS, OnnxReranker
from rag.settings import load_settings
from rag.values import Deadline

NEEDED = ("onnx", "sentence_transformers")
INSTALL = "pip install 'rag-service[bench,sentence-transformers]'"
REFERENCE = "sentence_transformers.CrossEncoder, torch float32 on all cores, our weights dequantised"
PATIENCE_S = 3600.0
METRIC = "ndcg@10"


@dataclass(frozen=True, slots=True)
class Scored:
    """One scorer's logits for a task's texts, in their order, the seconds it took and those of all cores."""

    seconds: float
    cpu_seconds: float
    logits: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """Both scorers on one task; ours alone where there is no reference."""

    task: Task
    ours: Scored
    theirs: Scored | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    parser.add_argument("--queries", type=count, default=30, metavar="N", help="of 50 texts each (default: 30)")
    parser.add_argument("--beir", type=Path, metavar="DIR", help="a benchmark in BEIR layout: compare quality too")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run."""
    load = os.getloadavg()[0]
    missing = [name for name in NEEDED if find_spec(name) is None]
    with throwaway_home() as home:
        tasks = _tasks(home, arguments)
        turns = asyncio.run(_measure_alone(home, tasks) if missing else _take_turns(home, tasks))
    about = {
        "reference": f"none without {' and '.join(missing)}: {INSTALL}" if missing else REFERENCE,
        "texts": "documents of the benchmark" if arguments.beir else "written, as long as our chunks",
        "candidates": CANDIDATES,
        "max_tokens": MAX_PAIR_TOKENS,
        "cores": os.cpu_count(),
        "load_at_start_and_end": [load, os.getloadavg()[0]],
    }
    return Result("rerank", {**figures(turns), **about})


def figures(turns: Sequence[Turn]) -> dict[str, object]:
    """What the turns come to: how many times faster ours is over all, and how its quality differs, if it is known."""
    ours = [turn.ours for turn in turns]
    theirs = [turn.theirs for turn in turns if turn.theirs]
    ndcg, reference_ndcg = mean(map(_quality, turns, ours)), mean(map(_quality, turns, theirs))
    return {
        "ratio": _ratio([one.seconds for one in theirs], [one.seconds for one in ours]),
        "cpu_ratio": _ratio([one.cpu_seconds for one in theirs], [one.cpu_seconds for one in ours]),
        "ndcg_delta": None if ndcg is None or reference_ndcg is None else round(ndcg - reference_ndcg, 4),
        "ndcg": _rounded(ndcg),
        "reference_ndcg": _rounded(reference_ndcg),
        "p50_ms": _median_ms(ours),
        "reference_p50_ms": _median_ms(theirs) if theirs else None,
        "logits_apart_mean": _rounded(mean(map(_apart, ours, theirs))),
        "queries": len(turns),
    }


def _quality(turn: Turn, scored: Scored) -> float | None:
    if not turn.task.grades:
        return None
    order = np.argsort(-np.array(scored.logits), kind="stable")
    return score([list(turn.task.texts)[n] for n in order], turn.task.grades)[METRIC]


def _apart(ours: Scored, theirs: Scored) -> float:
    return float(np.mean(np.abs(np.array(ours.logits) - np.array(theirs.logits))))


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float | None:
    return round(sum(theirs) / sum(ours), 2) if theirs else None


def _median_ms(scored: Sequence[Scored]) -> float:
    return round(1000 * (percentile([one.seconds for one in scored], 50) or 0.0), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _tasks(home: Home, arguments: argparse.Namespace) -> list[Task]:
    if arguments.beir:
        return candidates(load_benchmark(arguments.beir, None), arguments.queries)
    return written(Vocabulary.of_tokenizer(home.embedder / "tokenizer.json"), arguments.queries)


async def _measure_alone(home: Home, tasks: Sequence[Task]) -> list[Turn]:
    ours = _ours(home)
    await _score(ours, tasks[0])  # it has allocated when it counts
    return [Turn(task, await _score(ours, task)) for task in tasks]


async def _take_turns(home: Home, tasks: Sequence[Task]) -> list[Turn]:
    ours = _ours(home)
    turns: list[Turn] = []
    with _reference(home) as theirs:
        await _score(ours, tasks[0])
        theirs.score(tasks[0])
        for task in tasks:
            turns.append(Turn(task, await _score(ours, task), theirs.score(task)))
            sys.stderr.write(f"{len(turns)} of {len(tasks)} questions\n")
    return turns


def _ours(home: Home) -> OnnxReranker:
    return OnnxReranker(home.reranker, load_settings().inference_threads)


async def _score(model: OnnxReranker, task: Task) -> Scored:
    texts = list(task.texts.values())
    started, cpu_started = time.perf_counter(), time.process_time()
    logits = await model.score(task.query, texts, Deadline.after(PATIENCE_S))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return Scored(seconds, cpu_seconds, tuple(logit if isinstance(logit, float) else -np.inf for logit in logits))


class _Reference:
    """The other process."""

    def __init__(self, asked: IO[bytes], answers: IO[bytes], errors: Path) -> None:
        self._asked = asked
        self._answers = answers
        self._errors = errors

    def score(self, task: Task) -> Scored:
        try:
            self._asked.write(json.dumps({"query": task.query, "texts": [*task.texts.values()]}).encode() + b"\n")
            self._asked.flush()
        except BrokenPipeError:
            answer = b""
        else:
            answer = self._answers.readline()
        if not answer:
            raise CannotRun(f"the reference ended: {last_words(self._errors.read_bytes())}")
        found = json.loads(answer)
        return Scored(found["seconds"], found["cpu_seconds"], tuple(found["logits"]))


@contextmanager
def _reference(home: Home) -> Iterator[_Reference]:
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder, tempfile.NamedTemporaryFile() as errors:
        arguments = (str(home.reranker), folder, str(MAX_PAIR_TOKENS))
        command = (sys.executable, "-m", "eval.bench.float_reference", *arguments)
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors.file) as process:
            if process.stdin and process.stdout:  # they are pipes, so they are there
                yield _Reference(process.stdin, process.stdout, Path(errors.name))
