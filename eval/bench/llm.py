"""What failover adds to a call of a chat model: beside a bare streamed call of httpx2 to the same model, in turns.

The model is a process of its own that answers at once, so all that is measured is ours. `added_p50_ms` and
`added_p99_ms` are differences of the percentiles of whole answers, `first_content_ms` of the medians until the first
word. `answers_per_s` is how many answers come whole through failover with so many calls at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import httpx2

from eval.bench.model_server import MODEL, WORD
from eval.bench.processes import last_words, running
from eval.bench.result import Result, count
from eval.errors import CannotRun
from eval.metrics import percentile
from rag.calls import Call, ChatRequest, Message, Reply
from rag.llm.opening import open_chat
from rag.protocols import ChatModel, Score
from rag.settings import Settings, Target
from rag.telemetry import Metrics
from rag.values import Deadline, tenant_id

WARM_UP = 50
PATIENCE_S = 60.0
PROMPT = "What does the source say? " * 150  # about as long as six passages
MESSAGES = (Message("system", "Answer from the sources."), Message("user", PROMPT))
BODY = {
    "model": MODEL,
    "messages": [{"role": message.role, "content": message.text} for message in MESSAGES],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 512,
    "temperature": 0.0,
}
FIRST = f'"content":"{WORD}"'.encode()


@dataclass(frozen=True, slots=True)
class Taken:
    """Milliseconds until the first word, and until all was there."""

    first_ms: float
    whole_ms: float


Ask = Callable[[], Coroutine[None, None, Taken]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    parser.add_argument("--requests", type=count, default=1000, metavar="N", help="of each kind (default: 1000)")
    parser.add_argument("--words", type=count, default=50, metavar="N", help="of an answer (default: 50)")
    parser.add_argument("--concurrent", type=count, default=50, metavar="N", help="calls at once (default: 50)")
    parser.add_argument("--seconds", type=count, default=10, metavar="N", help="of them (default: 10)")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run."""
    load = os.getloadavg()[0]
    with _model(arguments.words) as url:
        found = asyncio.run(_measure(url, arguments))
    about = {
        "requests": arguments.requests,
        "words": arguments.words,
        "concurrent": arguments.concurrent,
        "cores": os.cpu_count(),
        "load_at_start_and_end": [load, os.getloadavg()[0]],
    }
    return Result("llm", {**found, **about})


def figures(ours: Sequence[Taken], bare: Sequence[Taken]) -> dict[str, float]:
    """What failover adds, and the medians it is the difference of."""

    def added(percent: int) -> float:
        return _whole(ours, percent) - _whole(bare, percent)

    first = percentile([one.first_ms for one in ours], 50), percentile([one.first_ms for one in bare], 50)
    found = {
        "added_p50_ms": added(50),
        "added_p99_ms": added(99),
        "first_content_ms": (first[0] or 0.0) - (first[1] or 0.0),
        "p50_ms": _whole(ours, 50),
        "bare_p50_ms": _whole(bare, 50),
    }
    return {name: round(ms, 2) for name, ms in found.items()}


async def _measure(url: str, arguments: argparse.Namespace) -> dict[str, object]:
    target = Target(name="bench", dialect="openai", url=f"{url}/v1", model=MODEL, context_tokens=100_000)
    settings = Settings(chat_targets=(target,), chat_chains={"answer": ("bench",)})
    async with open_chat(settings, _NoSentences(), Metrics()) as chat, _client() as http:
        ours, bare = _through(chat), _directly(http, f"{url}/v1/chat/completions")
        taken = await _in_turns(ours, bare, arguments.requests)
        at_once = {"concurrent": arguments.concurrent, "seconds": arguments.seconds}
        rates = {"answers_per_s": await _rate(ours, **at_once), "bare_answers_per_s": await _rate(bare, **at_once)}
    found = figures(*taken)
    return {
        **{name: found.pop(name) for name in ("added_p50_ms", "added_p99_ms", "first_content_ms")},
        **rates,
        **found,
    }


async def _in_turns(ours: Ask, bare: Ask, requests: int) -> tuple[list[Taken], list[Taken]]:
    taken: tuple[list[Taken], list[Taken]] = ([], [])
    for n in range(WARM_UP + requests):
        for which in (0, 1) if n % 2 else (1, 0):  # neither always comes after the other
            one = await (ours, bare)[which]()
            if n >= WARM_UP:
                taken[which].append(one)
    return taken


async def _rate(ask: Ask, *, concurrent: int, seconds: float) -> float:
    """Whole answers a second."""
    started = time.perf_counter()
    answered = 0

    async def one_after_another() -> None:
        nonlocal answered
        while time.perf_counter() - started < seconds:
            await ask()
            answered += 1

    await asyncio.gather(*(one_after_another() for _ in range(concurrent)))
    return round(answered / (time.perf_counter() - started), 1)


def _through(chat: ChatModel) -> Ask:
    request = ChatRequest("answer", "", (), MESSAGES, max_tokens=512)

    async def ask() -> Taken:
        started, first, whole = time.perf_counter(), 0.0, False
        call = Call(tenant_id("bench"), Deadline.after(PATIENCE_S))
        async with aclosing(chat.stream(request, call)) as items:
            async for item in items:
                first = first or time.perf_counter()
                whole = isinstance(item, Reply)
        return _taken(started, first, whole=whole)

    return ask


def _directly(http: httpx2.AsyncClient, url: str) -> Ask:
    async def ask() -> Taken:
        started, first, last = time.perf_counter(), 0.0, b""
        async with http.stream("POST", url, json=BODY) as response:
            async for data in response.aiter_bytes():
                if not first and FIRST in data:
                    first = time.perf_counter()
                last = data
        return _taken(started, first, whole=last.endswith(b"[DONE]\n\n"))

    return ask


def _taken(started: float, first: float, *, whole: bool) -> Taken:
    if not whole:
        raise CannotRun("an answer broke off")
    return Taken((first - started) * 1000, (time.perf_counter() - started) * 1000)


def _whole(taken: Sequence[Taken], percent: int) -> float:
    return percentile([one.whole_ms for one in taken], percent) or 0.0


def _client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(limits=limits, timeout=PATIENCE_S)


@contextmanager
def _model(words: int) -> Iterator[str]:
    """The URL of a running model."""
    command = (sys.executable, "-m", "eval.bench.model_server", str(words))
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as errors, running(command, stdin=pipe, stdout=pipe, stderr=errors) as process:
        if not (process.stdin and process.stdout):  # they are pipes, so they are there
            return
        with process.stdin, process.stdout:
            if not (port := process.stdout.readline().strip()):
                errors.seek(0)
                raise CannotRun(f"the model did not start: {last_words(errors.read())}")
            yield f"http://127.0.0.1:{port.decode()}"


class _NoSentences:
    """The cross-encoder of a chain that needs none."""

    name = "none"
    langs: frozenset[str] | None = None

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:  # noqa: ARG002
        return ["failed"] * len(texts)
