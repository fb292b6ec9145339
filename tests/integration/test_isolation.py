from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import pytest

from rag.errors import NotFound
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.expand import expand
from rag.retrieval.filters import parse_filter
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.documents import fingerprints, get_document, list_documents
from rag.store.engine import Database
from rag.store.jobs import Upload, cancel_job, enqueue, get_job
from rag.store.search import live_in_scope, load_chunks, load_spans, scoped_ords
from rag.values import ContentId, DocumentId, Facets, JobId, Question, TenantId, document_id
from tests.conftest import MakeTenant
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import ids_of, prepared, question, scope, store

DOCUMENTS = 60
ASKED = 1000
AT_ONCE = 4
WORDS = "refund parcel invoice courier weight return delay customs label tariff depot claim".split()  # noqa: SIM905


@dataclass(frozen=True)
class Side:
    """A tenant with all the ids it owns."""

    tenant: TenantId
    chunks: frozenset[str]
    documents: frozenset[DocumentId]
    jobs: tuple[JobId, ...]


@pytest.fixture
async def sides(database: Database, make_tenant: MakeTenant) -> tuple[Side, Side]:
    """Two tenants with the same documents under the same external ids."""
    return await fill(database, await make_tenant()), await fill(database, await make_tenant())


async def fill(database: Database, tenant: TenantId) -> Side:
    rng = random.Random(1)
    documents = [
        prepared(
            f"doc-{n}",
            *(" ".join(rng.choices(WORDS, k=8)) + f" {n}.{part}" for part in range(rng.randint(1, 3))),
            facets=Facets(doc_type=rng.choice("ab"), acl=rng.choice(((), ("hr",))), metadata={"n": n}),
        )
        for n in range(DOCUMENTS)
    ]
    await store(database, tenant, documents)
    async with database.tenant(tenant) as tx:
        jobs = [(await enqueue(tx, Upload(f"job-{n}", "text/plain", {}, b"text")))[0] for n in range(5)]
    contents = frozenset(content for document in documents for content in ids_of(document))
    owned = frozenset(document_id(tenant, document.external_id) for document in documents)
    return Side(tenant, contents, owned, tuple(jobs))


async def test_no_search_filter_or_id_reaches_the_other_tenant(database: Database, sides: tuple[Side, Side]) -> None:
    rng = random.Random(2)
    seen = 0

    async def asker(asked: int) -> None:
        nonlocal seen
        for _ in range(asked):
            mine, other = rng.sample(sides, 2)
            found = await rng.choice(kinds)(database, mine, other, rng)
            assert found <= {UUID(chunk) for chunk in mine.chunks} | mine.documents
            seen += len(found)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(asker(ASKED // AT_ONCE))

    assert seen > ASKED


def any_question(rng: random.Random) -> Question:
    filters = rng.choice(
        (
            None,
            {"field": "doc_type", "op": "eq", "value": rng.choice("abc")},
            {"not": {"field": "metadata.n", "op": "lt", "value": rng.randrange(DOCUMENTS)}},
            {"any": [{"field": "external_id", "op": "in", "value": [f"doc-{rng.randrange(DOCUMENTS)}"]}, {"all": []}]},
        )
    )
    text = " ".join(rng.choices([*WORDS, "unheard-of"], k=rng.randint(1, 4)))
    return question(text, scope(parse_filter(filters), groups=rng.choice(((), ("hr",)))), top_k=50)


async def by_retriever(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    retriever = Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=rng.choice((0, 10_000))),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=Ranking(rerank_top=10, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=2.0),
    )
    asked = any_question(rng)
    hits = (await retriever.retrieve(mine.tenant, asked)).hits
    passages = await expand(database, mine.tenant, hits[:3], scope=asked.scope, section_chars=500)
    return {hit.chunk.document_id for hit in hits} | {p.chunk.document_id for p in passages}


async def by_dense_leg(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    leg = DenseLeg(database, embedders(), exact_below=rng.choice((0, 10_000)))
    return {ranked.content for ranked in (await leg(mine.tenant, any_question(rng), 50)).ranked}


async def by_lexical_leg(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    return {ranked.content for ranked in (await LexicalLeg(database)(mine.tenant, any_question(rng), 50)).ranked}


async def by_documents(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    async with database.tenant(mine.tenant) as tx:
        listed = await list_documents(tx, frozenset({"hr"}), after="", limit=50)
        one = await get_document(tx, f"doc-{rng.randrange(DOCUMENTS)}", frozenset({"hr"}))
        assert await fingerprints(tx, sorted(other.documents)) == {}
        assert set(await load_spans(tx, scope(), [(document, 0, 5) for document in other.documents])) == {None}
    return {document.document_id for document in [*listed, one]}


async def by_ids_of_the_other(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    in_scope = scope(groups=("hr",))
    mixed = [ContentId(UUID(chunk)) for chunk in (*rng.sample(sorted(other.chunks), 5), *sorted(mine.chunks)[:5])]
    async with database.tenant(mine.tenant) as tx:
        loaded = await load_chunks(tx, in_scope, mixed, generation=1)
        alive = await live_in_scope(
            tx, in_scope, (await scoped_ords(tx, in_scope, generation=1)).tolist(), generation=1
        )
    return set(loaded) | set(alive.values())


async def by_jobs(database: Database, mine: Side, other: Side, rng: random.Random) -> set[UUID]:
    async with database.tenant(mine.tenant) as tx:
        assert (await get_job(tx, rng.choice(mine.jobs))).state == "queued"
        for ask in (get_job, cancel_job):
            with pytest.raises(NotFound):
                await ask(tx, rng.choice(other.jobs))
    return set()


kinds: tuple[Callable[[Database, Side, Side, random.Random], Awaitable[set[UUID]]], ...] = (
    by_retriever,
    by_dense_leg,
    by_lexical_leg,
    by_documents,
    by_ids_of_the_other,
    by_jobs,
)
