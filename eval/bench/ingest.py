"""How fast `rag ingest` is beside the bare embedding model, and what memory it takes.

Both are measured in turns on the same texts, the chunks that the service made. Of each the best of three turns counts:
on a shared machine the others tell of the neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from eval.bench.corpus import ARTICLES, NOTES, Shape, Vocabulary, write
from eval.bench.home import Home, throwaway_home
from eval.bench.processes import finish
from eval.bench.result import Result, count
from eval.errors import CannotRun

SEED = 20_260_101
SAMPLE = 400  # texts for finding the best bare way
SMALL_SHARE = 10  # the large corpus for memory is so many times the small one
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run of `rag ingest`: `seconds` as it says itself, `process_seconds` with the start of the process."""

    documents: int
    chunks: int
    seconds: float
    process_seconds: float
    peak_rss_mb: float

    @property
    def chunks_per_s(self) -> float:
        """The rate by the command's own clock."""
        return self.chunks / self.seconds


@dataclass(frozen=True, slots=True)
class Speed:
    """The turns of both, the texts a second of each bare way on a sample, and the best of them."""

    ingests: Sequence[Ingested]
    bares: Sequence[float]
    ways: dict[str, float]
    way: str

    @property
    def best(self) -> Ingested:
        """The faster turn."""
        return max(self.ingests, key=lambda turn: turn.chunks_per_s)

    @property
    def bare(self) -> float:
        """The fastest that the model was seen, on the sample too: noise only ever makes it slower."""
        return max(*self.bares, self.ways[self.way])

    @property
    def noise(self) -> float:
        """The fastest turn by the slowest: far above 1, others were using the machine and the ratio says little."""
        rates = [turn.chunks_per_s for turn in self.ingests]
        return max(max(rates) / min(rates), self.bare / min(self.bares))

    @property
    def ratio(self) -> float:
        """The service's rate as a part of the bare model's."""
        return self.best.chunks_per_s / self.bare


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take what `run` reads."""
    parser.add_argument("--chunks", type=count, default=2000, metavar="N", help="for speed (default: 2000)")
    parser.add_argument("--memory-chunks", type=count, default=20_000, metavar="N", help="for memory (default: 20000)")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="measure speed only")


def run(arguments: argparse.Namespace) -> Result:
    """The figures of a run in a home of its own."""
    load = os.getloadavg()[0]
    with throwaway_home() as home:
        vocabulary = Vocabulary.of_tokenizer(home.embedder / "tokenizer.json")
        speed = _measure_speed(home, vocabulary, arguments.chunks)
        memory = _measure_memory(home, vocabulary, arguments.memory_chunks) if arguments.memory else ()
    machine = {"cores": os.cpu_count(), "load_at_start_and_end": [load, os.getloadavg()[0]]}
    return Result("ingest", {**speed_figures(speed), **memory_figures(speed, memory), **machine})


def speed_figures(speed: Speed) -> dict[str, object]:
    """What the turns come to."""
    best = speed.best
    return {
        "chunks_per_s": round(best.chunks_per_s, 1),
        "bare_chunks_per_s": round(speed.bare, 1),
        "ratio": round(speed.ratio, 3),
        "noise": round(speed.noise, 2),
        "bare_way": speed.way,
        "chunks": best.chunks,
        "documents": best.documents,
        "seconds": best.seconds,
        "process_seconds": round(best.process_seconds, 2),
        "chunks_per_s_with_start": round(best.chunks / best.process_seconds, 1),
        "turns": [round(turn.chunks_per_s, 1) for turn in speed.ingests],
        "bare_turns": [round(rate, 1) for rate in speed.bares],
        "bare_ways_on_a_sample": {way: round(rate, 1) for way, rate in speed.ways.items()},
    }


def memory_figures(speed: Speed, memory: Sequence[Ingested]) -> dict[str, object]:
    """The peaks; with a small and a large run in *memory*, what ten times the chunks add."""
    peak = max(turn.peak_rss_mb for turn in (*speed.ingests, *memory))
    if not memory:
        return {"peak_rss_mb": round(peak, 1)}
    small, large = memory
    return {
        "peak_rss_mb": round(peak, 1),
        "peak_rss_mb_small": round(small.peak_rss_mb, 1),
        "peak_rss_mb_large": round(large.peak_rss_mb, 1),
        "rss_growth_mb": round(large.peak_rss_mb - small.peak_rss_mb, 1),
        "small_chunks": small.chunks,
        "large_chunks": large.chunks,
        "large_chunks_per_s": round(large.chunks_per_s, 1),
        "rss_counts": "rag ingest and the child that parses, not PostgreSQL",
    }


def _measure_speed(home: Home, vocabulary: Vocabulary, chunks: int) -> Speed:
    folder = _corpus(home, vocabulary, ARTICLES, chunks)
    first = _ingest(home, folder, "first")
    texts = _indexed_texts(home, "first")
    if len(texts) != first.chunks:
        raise CannotRun(f"`rag ingest` says it stored {first.chunks} chunks, GET /v1/chunks shows {len(texts)}")
    every = max(1, len(texts) // SAMPLE)
    ways = _bare(home, sorted(texts, key=len)[::every])
    way = max(ways, key=ways.__getitem__)
    ingests, bares = [first], [_bare(home, texts, way)[way]]
    for tenant in ("second", "third"):
        ingests.append(_ingest(home, folder, tenant))
        bares.append(_bare(home, texts, way)[way])
    return Speed(ingests, bares, ways, way)


def _measure_memory(home: Home, vocabulary: Vocabulary, chunks: int) -> tuple[Ingested, Ingested]:
    small = _ingest(home, _corpus(home, vocabulary, NOTES, max(1, chunks // SMALL_SHARE)), "small")
    return small, _ingest(home, _corpus(home, vocabulary, NOTES, chunks), "large")


def _corpus(home: Home, vocabulary: Vocabulary, shape: Shape, chunks: int) -> Path:
    folder = home.folder / f"corpus-{chunks}-{shape.chunk_bytes}"
    write(folder, vocabulary, shape, chunks=chunks, seed=SEED)
    return folder


def _ingest(home: Home, folder: Path, tenant: str) -> Ingested:
    home.rag("tenant", "create", tenant)
    sys.stderr.write(f"ingesting {folder.name} as {tenant}\n")
    finished = home.rag("ingest", str(folder), "--tenant", tenant, "--json")
    summary = json.loads(finished.output.splitlines()[-1])
    return Ingested(summary["done"], summary["chunks"], summary["seconds"], finished.seconds, finished.peak_rss_mb)


def _indexed_texts(home: Home, tenant: str) -> list[str]:
    """What the model was given for each chunk of the tenant."""
    with home.service(tenant) as http:
        documents = _pages(http, "/v1/documents", "documents", {})
        return [
            chunk["indexed"]
            for document in documents
            for chunk in _pages(http, "/v1/chunks", "chunks", {"external_id": document["external_id"]})
        ]


def _pages(http: httpx2.Client, route: str, name: str, about: dict[str, str]) -> Iterator[dict[str, str]]:
    page: dict[str, str | int] = {"limit": PAGE}
    while True:
        response = http.get(route, params={**about, **page})
        if response.status_code != httpx2.codes.OK:
            raise CannotRun(f"GET {route} was answered with {response.status_code}: {response.text[:300]}")
        body = response.json()
        yield from body[name]
        if body["next"] is None:
            return
        page["after"] = body["next"]


def _bare(home: Home, texts: Sequence[str], *way: str) -> dict[str, float]:
    sys.stderr.write(f"embedding {len(texts)} texts with the bare model\n")
    file = home.folder / "texts.json"
    file.write_text(json.dumps(texts), "utf-8")
    output = finish((sys.executable, "-m", "eval.bench.bare", str(home.embedder), str(file), *way)).output
    rates: dict[str, float] = json.loads(output)
    return rates
