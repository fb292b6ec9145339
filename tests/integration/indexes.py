"""Two embedders, and a tenant's indexes made by one and then by the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np
import psycopg

from ingest.pipeline import CHUNKER, Pipeline, Source
from ingest.reindex import Reindex
from rag.analysis import ANALYSER
from rag.protocols import Embedder, Vectors
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.store.generations import Index, Indexes, indexes_of, open_next
from rag.values import Recipe, TenantId
from tests.fakes import FakeEmbedder, FakeReranker, parse_directly
from tests.integration.corpus import question
from tests.integration.reading import Legs

Hook = Callable[[], Awaitable[None]]

HANDBOOK = {
    "refunds.md": "# Refunds\n\nA zebra refund takes five days.",
    "parcels.md": "# Parcels\n\nA zebra parcel goes by train.",
    "fees.md": "# Fees\n\nA zebra fee is kept.",
    "boats.md": "# Boats\n\nA zebra boat is slow.",
}
LONG = "# Long\n\n" + " ".join(f"Sentence {n} tells of a zebra that walks." for n in range(30))


class OtherEmbedder(FakeEmbedder):
    """Vectors that no FakeEmbedder gives, of shorter chunks; runs *hook* once, before it embeds for the first time."""

    name = "other-embedder"
    max_tokens = 40

    def __init__(self, hook: Hook | None = None, error: Exception | None = None) -> None:
        super().__init__(error)
        self._hook = hook

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        hook, self._hook = self._hook, None
        if hook:
            await hook()
        return np.roll(await super().embed_documents(texts), 1, axis=1)

    async def embed_query(self, text: str) -> Vectors:
        return np.roll(await super().embed_query(text), 1)


def by_name(*embedders: Embedder) -> dict[str, Embedder]:
    return {embedder.name: embedder for embedder in embedders}


def both() -> dict[str, Embedder]:
    return by_name(OtherEmbedder(), FakeEmbedder())


def recipe_of(embedder: Embedder) -> Recipe:
    return Recipe(embedder.name, ANALYSER, CHUNKER)


async def ingest(
    database: Database,
    tenant: TenantId,
    texts: Mapping[str, str],
    embedders: Mapping[str, Embedder] | None = None,
    *,
    keep_history: bool = False,
    **facets: object,
) -> None:
    """Upload Markdown; a tenant's first index is a FakeEmbedder's unless others are given."""
    pipeline = Pipeline(database, embedders or by_name(FakeEmbedder(), OtherEmbedder()), parse_directly)
    sources = [
        Source(name, text.encode(), "text/markdown", facets, keep_history=keep_history) for name, text in texts.items()
    ]
    results = await pipeline.ingest(tenant, sources)
    assert {result.state for result in results} == {"done"}, results


async def begin(database: Database, tenant: TenantId, embedder: Embedder) -> Reindex:
    """What builds the tenant's next index."""
    async with database.tenant(tenant) as tx:
        index = await open_next(tx, recipe_of(embedder))
    return Reindex(database, tenant, index, embedder=embedder)


async def reindex(database: Database, tenant: TenantId, embedder: Embedder) -> Reindex:
    """Build the next index and switch to it."""
    building = await begin(database, tenant, embedder)
    await building.catch_up()
    await building.switch()
    return building


async def indexes(database: Database, tenant: TenantId) -> Indexes:
    async with database.tenant(tenant) as tx:
        return await indexes_of(tx)


async def current(database: Database, tenant: TenantId) -> Index:
    found = (await indexes(database, tenant)).current
    assert found
    return found


def legs_of(database: Database, embedders: Mapping[str, Embedder] | None = None) -> Legs:
    return Legs(DenseLeg(database, embedders or both(), exact_below=10_000), LexicalLeg(database))


def retriever_of(database: Database, legs: Legs | None = None) -> Retriever:
    legs = legs or legs_of(database)
    ranking = Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=1.0)
    return Retriever(database, dense=legs.dense, lexical=legs.lexical, reranker=FakeReranker(), ranking=ranking)


def rows(owner: psycopg.Connection, tenant: TenantId, table: str) -> dict[int, int]:
    """The rows of a table by index."""
    joined = "chunks JOIN embeddings USING (tenant_id, ord)" if table == "embeddings" else table
    query = f"SELECT generation, count(*) FROM {joined} WHERE tenant_id = %s GROUP BY 1 ORDER BY 1"  # type: ignore[misc]
    return dict(owner.execute(query, (tenant,)).fetchall())


async def ids(database: Database, tenant: TenantId, query: str = "zebra") -> list[str]:
    found = await retriever_of(database).retrieve(tenant, question(query, top_k=100))
    return sorted({hit.chunk.external_id for hit in found.hits})
