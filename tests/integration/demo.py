"""The demo corpus with the real embedder, and how well a search finds passages in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.matching import contains
from ingest.pipeline import Pipeline, Source
from rag.inference.onnx import OnnxEmbedder
from rag.protocols import Expanding
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.store.tenancy import create_tenant
from rag.values import Retrieval, TenantId
from tests.conftest import REPOSITORY
from tests.fakes import FakeReranker, parse_directly

FIXTURES = REPOSITORY / "fixtures"
DEPTH = 5

Passage = tuple[str, str]  # a document and words of it


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo tenants by name, in a database that holds nothing else. Tests leave it as it is."""

    database: Database
    embedder: OnnxEmbedder
    tenants: Mapping[str, TenantId]

    @classmethod
    async def filled(cls, database: Database, embedder: OnnxEmbedder) -> Demo:
        """The demo corpus, ingested."""
        tenants = {}
        pipeline = Pipeline(database, {embedder.name: embedder}, parse_directly)
        for root in sorted((FIXTURES / "corpus").iterdir()):
            tenants[root.name] = await create_tenant(database, root.name)
            files = (path for path in root.rglob("*") if path.is_file())
            sources = [Source(path.relative_to(root).as_posix(), path.read_bytes()) for path in files]
            results = await pipeline.ingest(tenants[root.name], sources)
            assert {result.state for result in results} == {"done"}
        return cls(database, embedder, tenants)

    def retriever(self, expanding: Expanding | None = None) -> Retriever:
        """A search by both legs, fused and not reranked."""
        return Retriever(
            self.database,
            dense=DenseLeg(self.database, {self.embedder.name: self.embedder}, exact_below=10_000),
            lexical=LexicalLeg(self.database),
            reranker=FakeReranker(),
            ranking=Ranking(rerank_top=0, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0),
            expanding=expanding,
        )


def rank_of(passages: Sequence[Passage], found: Retrieval) -> int | None:
    """The rank of the first chunk that holds one of *passages*."""
    for n, hit in enumerate(found.hits, 1):
        if any(hit.chunk.external_id == document and contains(hit.chunk.text, words) for document, words in passages):
            return n
    return None


def recall(found: Sequence[int | None]) -> float:
    return sum(rank is not None and rank <= DEPTH for rank in found) / len(found)


def mrr(found: Sequence[int | None]) -> float:
    return sum(1 / rank for rank in found if rank) / len(found)
