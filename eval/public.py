"""Public retrieval benchmarks in BEIR layout: `corpus.jsonl`, `queries.jsonl`, `qrels.tsv` or `qrels/test.tsv`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from eval.errors import CannotRun
from eval.metrics import mean, ndcg, percentile, recall, reciprocal_rank
from eval.service import Asker, Body, Corpus, SearchReply, Service
from eval.suite import spread

CANDIDATES = 100
NOTED = 10  # of the documents found
FAULTS_SHOWN = 20
QRELS_HEADER = "query-id\tcorpus-id\tscore"
QRELS_ROW = re.compile(r"([^\t]+)\t([^\t]+)\t(-?[0-9]+)")  # TREC judges below 0 what is spam

Note = Callable[[Mapping[str, object]], object]


class _Record(BaseModel):
    id: str = Field(alias="_id", min_length=1)
    title: str = ""
    text: str


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Queries in file order that have a relevant document, and the grade of every judged document."""

    name: str
    corpus: Path
    docs: int
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    queries_without_qrels: int

    @property
    def tenant(self) -> str:
        """The tenant that holds the documents."""
        return f"beir-{self.name}"

    def source(self) -> Corpus:
        """The documents, as a service started for the run takes them in."""
        return Corpus(self.tenant, self.corpus)


def load_benchmark(folder: Path, split: str | None) -> Benchmark:
    """The benchmark in *folder*; with *split*, from `queries_<split>.jsonl` and `qrels_<split>.tsv`.

    As BEIR has it, the queries of all splits may be in one file, and the judgements in `qrels/<split>.tsv`.
    """
    suffix = f"_{split}" if split else ""
    try:
        docs = _records(folder / "corpus.jsonl")
        queries = _records(_there(folder / f"queries{suffix}.jsonl", folder / "queries.jsonl"))
        judged_in = _there(folder / f"qrels{suffix}.tsv", folder / "qrels" / f"{split or 'test'}.tsv")
        qrels = _qrels(judged_in, queries=queries.keys(), docs=docs.keys())
    except (OSError, UnicodeDecodeError) as exc:
        raise CannotRun(f"the benchmark in {folder} cannot be read: {exc}") from exc
    judged = {id_: text for id_, text in queries.items() if any(grade > 0 for grade in qrels.get(id_, {}).values())}
    if not judged:
        raise CannotRun(f"the benchmark in {folder} has no query with a relevant document")
    return Benchmark(
        name=folder.resolve().name,
        corpus=folder / "corpus.jsonl",
        docs=len(docs),
        queries=judged,
        qrels=qrels,
        queries_without_qrels=len(queries) - len(judged),
    )


def _there(path: Path, other: Path) -> Path:
    if path.exists() or other.exists():
        return path if path.exists() else other
    raise CannotRun(f"there is neither {path} nor {other}" if other != path else f"there is no {path}")


async def measure(
    service: Service, benchmark: Benchmark, *, rerank: bool, limit: int | None, note: Note = lambda _: None
) -> dict[str, object]:
    """The metrics of *limit* queries, asked one at a time so that latencies do not disturb each other.

    *note* hears of each query what was found, what should have been, and its metrics.
    """
    scores: list[dict[str, float | None]] = []
    replies: list[SearchReply] = []
    asked = spread([*benchmark.queries.items()], limit)
    options: Body = {"top_k": CANDIDATES, "rerank": rerank}
    for query_id, text in asked:
        reply = await service.search(Asker(benchmark.tenant), {"query": text, **options})
        replies.append(reply)
        found = list(dict.fromkeys(document for hit in reply.hits for document in hit.documents))
        grades = benchmark.qrels[query_id]
        scores.append(score(found, grades))
        note({"_id": query_id, "text": text, **scores[-1], "relevant": grades, "found": found[:NOTED]})
        if len(replies) % 50 == 0:
            sys.stderr.write(f"asked {len(replies)} of {len(asked)} queries\n")
    elapsed = [reply.elapsed_ms for reply in replies]
    return {
        **{metric: mean(each[metric] for each in scores) for metric in scores[0]},
        "p50_ms": percentile(elapsed, 50),
        "p95_ms": percentile(elapsed, 95),
        "docs": benchmark.docs,
        "queries": len(asked),
        "queries_without_qrels": benchmark.queries_without_qrels,
        "reranks": Counter(reply.reranking for reply in replies),
        "incomplete_searches": sum(not reply.complete for reply in replies),
        "benchmark": benchmark.name,
    }


def score(ranking: Iterable[str], grades: Mapping[str, int]) -> dict[str, float | None]:
    """The metrics of one query; a document ranks where its best chunk does."""
    rank_of = {document: rank for rank, document in enumerate(dict.fromkeys(ranking), 1)}
    relevant = {document: grade for document, grade in grades.items() if grade > 0}
    ranks = [rank_of.get(document) for document in relevant]
    return {
        "ndcg@10": ndcg(ranks, 10, list(relevant.values())),
        "mrr@10": reciprocal_rank(ranks, 10),
        **{f"recall@{k}": recall(ranks, k) for k in (1, 5, 10, 20, 50)},
    }


def _records(path: Path) -> dict[str, str]:
    faults: list[str] = []
    texts: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = _Record.model_validate_json(line)
        except ValidationError as exc:
            faults += [f"line {number}: {error['loc']}: {error['msg']}" for error in exc.errors()]
            continue
        faults += [f"line {number}: the id {record.id} is taken"] * (record.id in texts)
        faults += [f"line {number}: {record.id} is empty"] * (not (record.title + record.text).strip())
        texts[record.id] = record.text
    _refuse(path, faults)
    return texts


def _qrels(path: Path, *, queries: Container[str], docs: Container[str]) -> dict[str, dict[str, int]]:
    header, *rows = path.read_text("utf-8").splitlines() or [""]
    faults = [] if header == QRELS_HEADER else [f"line 1 must be {QRELS_HEADER!r}"]
    qrels: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows, 2):
        match = QRELS_ROW.fullmatch(row)
        if not match:
            faults.append(f"line {number}: not a query id, a document id and a grade: {row!r}")
            continue
        query, doc, grade = match.groups()
        faults += [f"line {number}: there is no query {query}"] * (query not in queries)
        faults += [f"line {number}: there is no document {doc}"] * (doc not in docs)
        faults += [f"line {number}: {query} and {doc} are judged twice"] * (doc in qrels.get(query, {}))
        qrels.setdefault(query, {})[doc] = int(grade)
    _refuse(path, faults)
    return qrels


def _refuse(path: Path, faults: Sequence[str]) -> None:
    if faults:
        more = [f"and {len(faults) - FAULTS_SHOWN} more"] * (len(faults) > FAULTS_SHOWN)
        raise CannotRun("\n  ".join([f"{path} has faults:", *faults[:FAULTS_SHOWN], *more]))
