"""What becomes of latency, and what breaks, when many clients ask a running service at once.

Three phases of equal length: searches, searches with reranking, and both while documents are uploaded. Every question
is asked with a number of its own, so that no answer is remembered. The clients share the machine with the service.
Latencies are those of the requests that were answered with what they asked for; the others are counted by status.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as numbers
from itertools import cycle, islice
from pathlib import Path

import httpx2

from eval.bench.clients import TIMEOUT_S, Answer, Phase, Request, press, send
from eval.bench.corpus import NOTES, Vocabulary, Writer
from eval.bench.home import Home, throwaway_home
from eval.bench.result import Result, count
from eval.metrics import percentile
from eval.run import corpora
from eval.suite import load
from rag.settings import load_settings

SEED = 20_260_103
TOP_K = 10
MIX = ("search", "rerank", "search", "search", "upload", "search", "rerank", "search")  # of eight requests, one uploads
DRAIN_S = 120.0  # for the documents taken in to be ingested, once the clients are gone
POLL_S = 0.5
UNDER_WAY = {"queued", "running"}
AFTERWARDS = 20  # searches by one client when all is over: the service has to be as quick as before


@dataclass(frozen=True, slots=True)
class Source:
    """A tenant's key, and its questions."""

    key: str
    questions: tuple[str, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    golden = Path("fixtures/golden.json")
    parser.add_argument("--suite", type=Path, default=golden, metavar="FILE", help=f"default: {golden}")
    parser.add_argument("--clients", type=count, default=64, metavar="N", help="default: 64")
    parser.add_argument("--seconds", type=count, default=20, metavar="N", help="of each phase (default: 20)")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run in a home of its own."""
    load_at_start = os.getloadavg()[0]
    with throwaway_home() as home:
        vocabulary = Vocabulary.of_tokenizer(home.embedder / "tokenizer.json")
        sources = _fill(home, arguments.suite)
        with home.serving() as url:
            sender = _Sender(sources, Writer(vocabulary, NOTES, seed=SEED))
            found = asyncio.run(_press_all(url, sender, clients=arguments.clients, seconds=arguments.seconds))
    about = {
        "clients": arguments.clients,
        "seconds_a_phase": arguments.seconds,
        "pool_size": load_settings().pool_size,
        "cores": os.cpu_count(),
        "load_at_start_and_end": [load_at_start, os.getloadavg()[0]],
    }
    return Result("load", {**found, **about})


def figures(phases: Mapping[str, Phase]) -> dict[str, object]:
    """What the phases come to: how often the service broke, then each phase."""
    faults = sum(answer.faulty for phase in phases.values() for answer in phase.answers)
    requests = sum(len(phase.answers) for phase in phases.values())
    return {"requests": requests, "faults": faults, **{name: phase_figures(phase) for name, phase in phases.items()}}


def phase_figures(phase: Phase) -> dict[str, object]:
    """Requests, errors by status, and the latency of each kind of request that succeeded."""
    succeeded = [answer for answer in phase.answers if answer.succeeded]
    errors = Counter(answer.status for answer in phase.answers if not answer.succeeded)
    states = Counter(answer.body["rerank"] for answer in succeeded if answer.kind == "rerank")
    return {
        "requests": len(phase.answers),
        "errors": dict(errors),
        "rps": round(len(succeeded) / phase.seconds, 1),
        **latencies(succeeded),
        **{kind: latencies([a for a in succeeded if a.kind == kind]) for kind in _kinds(succeeded)},
        **({"reranked": dict(states)} if states else {}),
    }


def latencies(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Percentiles in milliseconds."""
    elapsed = [answer.elapsed_ms for answer in answers]
    found = {f"p{percent}_ms": percentile(elapsed, percent) for percent in (50, 95, 99)}
    return {name: None if ms is None else round(ms, 1) for name, ms in found.items()}


def _kinds(answers: Sequence[Answer]) -> list[str]:
    kinds = sorted({answer.kind for answer in answers})
    return kinds if len(kinds) > 1 else []


class _Sender:
    """Requests without end, none like another."""

    def __init__(self, sources: Sequence[Source], writer: Writer) -> None:
        self._asked = cycle([(source.key, text) for source in sources for text in source.questions])
        self._keys = cycle([source.key for source in sources])
        self._writer = writer
        self._numbers = numbers()

    def of(self, *kinds: str) -> Iterator[Request]:
        makers = {"search": self._search, "rerank": self._rerank, "upload": self._upload}
        return (makers[kind]() for kind in cycle(kinds))

    def _search(self) -> Request:
        return self._ask("search")

    def _rerank(self) -> Request:
        return self._ask("rerank")

    def _ask(self, kind: str) -> Request:
        key, text = next(self._asked)
        body = {"query": f"{text} ({next(self._numbers)})", "top_k": TOP_K, "rerank": kind == "rerank"}
        return Request(kind, "POST", "/v1/search", key, json=body)

    def _upload(self) -> Request:
        path = f"/v1/documents/uploaded/{next(self._numbers)}.md"
        return Request("upload", "PUT", path, next(self._keys), content=self._writer.document().encode())


def _fill(home: Home, suite_file: Path) -> list[Source]:
    suite = load(suite_file)
    sources = []
    for corpus in corpora(suite, suite.questions):
        sys.stderr.write(f"ingesting {corpus.path}\n")
        home.rag("tenant", "create", corpus.tenant)
        home.rag("ingest", str(corpus.path), "--tenant", corpus.tenant)
        texts = tuple(question.question for question in suite.questions if question.tenant == corpus.tenant)
        sources.append(Source(home.key(corpus.tenant, "query,ingest"), texts))
    return sources


async def _press_all(url: str, sender: _Sender, *, clients: int, seconds: float) -> dict[str, object]:
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    phases: dict[str, Phase] = {}
    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as http:
        await press(http, sender.of("search", "rerank"), clients=1, seconds=1)  # whatever is first done, is done
        before = await _one_by_one(http, sender)
        for name, kinds in (("search", ("search",)), ("rerank", ("rerank",)), ("mix", MIX)):
            sys.stderr.write(f"{clients} clients, {name}\n")
            phases[name] = await press(http, sender.of(*kinds), clients=clients, seconds=seconds)
        jobs = await _ingested(http, phases["mix"])
        after = await _one_by_one(http, sender)
    alone = {"alone_p50_ms_before_and_after": [latencies(phase.answers)["p50_ms"] for phase in (before, after)]}
    return {**figures({**phases, "after": after}), **jobs, **alone}


async def _one_by_one(http: httpx2.AsyncClient, sender: _Sender) -> Phase:
    started = time.monotonic()
    answers = [await send(http, request) for request in islice(sender.of("search"), AFTERWARDS)]
    return Phase(tuple(answers), time.monotonic() - started)


async def _ingested(http: httpx2.AsyncClient, phase: Phase) -> dict[str, object]:
    """How the jobs of the phase's uploads stand when all have ended, or the time for that is over."""
    waiting = [_job_of(answer) for answer in phase.answers if answer.kind == "upload" and answer.succeeded]
    ended: Counter[str] = Counter()
    started = time.monotonic()
    while waiting and time.monotonic() - started < DRAIN_S:
        states = [(await send(http, job)).body.get("state", "unknown") for job in waiting]
        ended.update(state for state in states if state not in UNDER_WAY)
        waiting = [job for job, state in zip(waiting, states, strict=True) if state in UNDER_WAY]
        await asyncio.sleep(POLL_S)
    return {
        "uploads": {**ended, **({"unfinished": len(waiting)} if waiting else {})},
        "uploads_ingested_after_s": round(time.monotonic() - started, 1),
    }


def _job_of(answer: Answer) -> Request:
    return Request("job", "GET", f"/v1/jobs/{answer.body['job_id']}", answer.request.key)
