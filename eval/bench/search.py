"""How fast `POST /v1/search` is beside its bare parts, on a tenant of 100,000 chunks.

The service is a running `rag serve`, asked without reranking, one question after another, by a client that keeps its
connection: `p50_ms` and `p95_ms` are from the request's first byte to the response's last. The bare parts are measured
in the same run, question by question in turns, another first each time:

- the embedding: tokenizer and ONNX model alone, in one thread (`embed_p50_ms`);
- the dense leg's statement and the one that reads posting blocks, each with the parameters and settings that the leg
  sends, on a plain connection with the tenant set, rows fetched (`search_p50_ms`, one after the other).

`bare_p50_ms` is the median of their sum. The service runs both legs at once, so `bare_at_once_p50_ms` is the median of
the slower of (embedding, then dense statement) and (posting blocks): nothing can be faster than that. `p50_ratio` is
p50_ms by bare_p50_ms, meant to be at most 1.5; `p95_ratio` is p95_ms by bare_p50_ms, at most 3.

The questions are of real words, embedded by the real model; the corpus has the same words, and its clusters lie around
the vectors of other such questions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from eval.bench.asking import percentile
from eval.bench.bare_search import Bare, BareSearch, Searched, bare_search, listen
from eval.bench.corpus import Vocabulary
from eval.bench.database import Server, server_in
from eval.bench.home import Home, throwaway_home
from eval.bench.result import Result, count, table
from eval.bench.synthetic import CENTRES, NOW, Corpus, Lexicon, Space
from eval.errors import CannotRun
from rag.inference.onnx import OnnxEmbedder
from rag.values import Question, Scope, TenantId

SEED = 20_260_301
TENANT = "searched"
WARM_UP = 30  # questions: connections prepare a statement at its fifth run
WORDS = (4, 12)  # of a question
SHARES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds by question: of the service's requests, of its stages as it says itself, and of the bare parts."""

    service: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bare: list[Bare] = field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    parser.add_argument("--chunks", type=count, default=100_000, metavar="N", help="of the tenant (default: 100000)")
    parser.add_argument("--requests", type=count, default=400, metavar="N", help="after the warm-up (default: 400)")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run in a home of its own."""
    load = os.getloadavg()[0]
    with throwaway_home() as home:
        times = _run(home, arguments.chunks, arguments.requests + WARM_UP)
    facts = {"chunks": arguments.chunks, "requests": len(times.service)}
    machine = {"cores": os.cpu_count(), "load_at_start_and_end": [load, os.getloadavg()[0]]}
    return Result("search", {**figures(times), **facts, **machine}, stages(times))


def figures(times: Times) -> dict[str, object]:
    """What the times come to."""
    bare = [part.total for part in times.bare]
    bare_p50 = percentile(bare, 50)
    p50, p95 = percentile(times.service, 50), percentile(times.service, 95)
    return {
        "p50_ms": p50,
        "p95_ms": p95,
        "embed_p50_ms": percentile([part.embed for part in times.bare], 50),
        "search_p50_ms": percentile([part.dense + part.postings for part in times.bare], 50),
        "bare_p50_ms": bare_p50,
        "p50_ratio": round(p50 / bare_p50, 3),
        "p95_ratio": round(p95 / bare_p50, 3),
        "bare_p95_ms": percentile(bare, 95),
        "bare_at_once_p50_ms": percentile([part.at_once for part in times.bare], 50),
    }


def stages(times: Times) -> str:
    """A table of the parts: the request, what the service says of its stages, and the bare ones."""
    parts = {"request": times.service, **{f"- {stage}": spent for stage, spent in times.stages.items()}}
    for name in ("embed", "dense", "postings", "total", "at_once"):
        parts[f"bare {name}"] = [getattr(part, name) for part in times.bare]
    rows = [(name, *(f"{percentile(spent, share):.2f}" for share in SHARES)) for name, spent in parts.items()]
    return table(("ms", *(f"p{share}" for share in SHARES)), rows)


def _run(home: Home, chunks: int, questions: int) -> Times:
    vocabulary = Vocabulary.of_tokenizer(home.embedder / "tokenizer.json")
    rng = random.Random(SEED)  # noqa: S311 - text, no secret
    texts = [" ".join(vocabulary.draw(rng, rng.randint(*WORDS))) for _ in range(CENTRES + questions)]
    with server_in(home.folder / "home") as server:
        embedder = OnnxEmbedder(home.embedder, 1)
        lexicon = Lexicon(vocabulary.words())
        tenant, searched = asyncio.run(_prepare(server, embedder, lexicon, texts, chunks=chunks))
        with home.service(TENANT) as http, bare_search(tenant, home.embedder, server.url, searched[-1]) as bare:
            sys.stderr.write(f"asking {questions} questions\n")
            _measure(searched[:WARM_UP], http, bare)
            return _measure(searched[WARM_UP:], http, bare)


async def _prepare(
    server: Server, embedder: OnnxEmbedder, lexicon: Lexicon, texts: Sequence[str], *, chunks: int
) -> tuple[TenantId, list[Searched]]:
    """The filled tenant, and what its legs send for all texts but the first, which say where the clusters are."""
    corpus = Corpus(lexicon, Space(await embedder.embed_documents(texts[:CENTRES])), seed=SEED)
    async with server.open() as store:
        sys.stderr.write(f"filling a tenant of {chunks:,} chunks\n")
        tenant = await store.fill(TENANT, corpus, corpus.parts(chunks), embedder=embedder.name)
        store.graph()
        store.settle()
        scope = Scope(frozenset(), NOW)
        questions = [Question(text, scope) for text in texts[CENTRES:]]
        return tenant, await listen(tenant, store.database, embedder, questions)


def _measure(searched: Sequence[Searched], http: httpx2.Client, bare: BareSearch) -> Times:
    times = Times()
    for n, question in enumerate(searched):
        if n % 2:  # whoever is second finds the rows in memory
            times.bare.append(bare.times(question))
            _request(http, question.text, times)
        else:
            _request(http, question.text, times)
            times.bare.append(bare.times(question))
    return times


def _request(http: httpx2.Client, text: str, times: Times) -> None:
    started = time.perf_counter()
    response = http.post("/v1/search", json={"query": text, "rerank": False})
    times.service.append((time.perf_counter() - started) * 1000)
    if response.status_code != httpx2.codes.OK:
        raise CannotRun(f"POST /v1/search was answered with {response.status_code}: {response.text[:300]}")
    for stage, spent in response.json()["timings_ms"].items():
        times.stages[stage].append(spent)
