"""The chunks of the lexical benchmark in a throwaway database, as ingestion would leave them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np
import psycopg

from eval.bench.lexical_corpus import Chunks
from rag.analysis import ANALYSER
from rag.store.compaction import compact
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import Database, open_database
from rag.store.migration import migrate
from rag.store.tenancy import create_tenant
from rag.store.writing import PreparedDocument, replace_documents
from rag.values import DIMS, Draft, Facets, Recipe, TenantId

PER_DOCUMENT = 10
DOCUMENTS_AT_ONCE = 1000
CONNECTIONS, WAIT_S = 2, 30.0
RECIPE = Recipe("none", ANALYSER, "none")


async def store_chunks(database: Database, chunks: Chunks) -> TenantId:
    """A tenant that holds the chunks, in compacted postings; their vectors are noise."""
    tenant = await create_tenant(database, "lexical")
    documents = list(_documents(chunks))
    for at in range(0, len(documents), DOCUMENTS_AT_ONCE):
        async with database.tenant(tenant) as tx:
            await replace_documents(tx, documents[at : at + DOCUMENTS_AT_ONCE], RECIPE)
    async with database.tenant(tenant) as tx:
        await compact(tx)
    return tenant


@asynccontextmanager
async def throwaway_database() -> AsyncIterator[tuple[Database, str]]:
    """An empty embedded PostgreSQL with the service's schema, and its owner's address; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "home")
        await asyncio.to_thread(server.start)
        try:
            await asyncio.to_thread(migrate, server.url)
            async with open_database(server.url, size=CONNECTIONS, timeout_s=WAIT_S) as database:
                yield database, server.url
        finally:
            await asyncio.to_thread(server.stop)


def settle(url: str) -> None:
    """Vacuum and analyse, as autovacuum would have by the time that questions come."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("VACUUM (ANALYZE)")


def _documents(chunks: Chunks) -> Iterator[PreparedDocument]:
    rng = np.random.default_rng(0)
    for at in range(0, len(chunks.texts), PER_DOCUMENT):
        texts = chunks.texts[at : at + PER_DOCUMENT]
        whole = "\n".join(texts)
        yield PreparedDocument(
            external_id=f"{at:08}",
            facets=Facets(),
            fingerprint=sha256(whole.encode()).digest(),
            text=whole,
            drafts=list(_drafts(texts, len(whole))),
            vectors=rng.standard_normal((len(texts), DIMS), np.float32),
            terms=chunks.terms[at : at + PER_DOCUMENT],
        )


def _drafts(texts: Sequence[str], end: int) -> Iterator[Draft]:
    at = 0
    for position, text in enumerate(texts):
        yield Draft(position, at, at + len(text), 0, end, (), "prose", text, text)
        at += len(text) + 1
