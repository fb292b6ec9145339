"""Questions with the texts to be reranked: chunks of natural words, or the first stage's candidates of a benchmark."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench.corpus import Vocabulary
from eval.public import Benchmark
from eval.suite import spread
from rag.analysis import analyse
from rag.retrieval.lexical import accumulate, best, query_terms
from rag.store.indexes import IndexState
from rag.store.postings import Block, build

SEED = 20_260_104
CANDIDATES = 50
CHUNK_WORDS, QUESTION_WORDS = (25, 90), (4, 12)  # as chunks and questions of our fixtures


@dataclass(frozen=True, slots=True)
class Task:
    """A question, the texts by their ids, and the grades of those that answer it, where there are any."""

    query: str
    texts: Mapping[str, str]
    grades: Mapping[str, int]


def written(vocabulary: Vocabulary, number: int) -> list[Task]:
    """So many questions over chunks that answer none of them: for speed alone."""
    rng = random.Random(SEED)  # noqa: S311 - text, no secret

    def words(least: int, greatest: int) -> str:
        return " ".join(vocabulary.draw(rng, rng.randint(least, greatest)))

    return [
        Task(words(*QUESTION_WORDS), {str(n): words(*CHUNK_WORDS) for n in range(CANDIDATES)}, {})
        for _ in range(number)
    ]


def candidates(benchmark: Benchmark, number: int) -> list[Task]:
    """So many of the benchmark's questions, at even distances, each with the best documents by BM25."""
    documents = dict(_documents(benchmark.corpus))
    return list(_first_stage(documents, benchmark, spread([*benchmark.queries.items()], number)))


def _documents(corpus: Path) -> Iterator[tuple[str, str]]:
    for line in corpus.read_text("utf-8").split("\n"):
        if line.strip():
            record = json.loads(line)
            yield record["_id"], f"{record.get('title', '')}\n{record['text']}".strip()


def _first_stage(
    documents: Mapping[str, str], benchmark: Benchmark, questions: Sequence[tuple[str, str]]
) -> Iterator[Task]:
    ids = list(documents)
    blocks: dict[int, list[Block]] = {}
    for block in build([analyse(text) for text in documents.values()]):
        blocks.setdefault(block.term, []).append(block)
    state = IndexState(next_ord=len(ids), posted=len(ids))
    for id_, query in questions:
        terms = query_terms(query, ["en"])
        scores = accumulate([block for term in terms for block in blocks.get(term, [])], terms, state)
        found = [ids[n] for n in best(scores, CANDIDATES)[:CANDIDATES].tolist()]
        yield Task(query, {document: documents[document] for document in found}, benchmark.qrels[id_])
