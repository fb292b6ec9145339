"""One order of results, whatever is asked of it, however the documents came, and after a restart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rag.protocols import Leg, Ordinals, Reranker, Score
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.feedback import HEAD
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.values import Deadline, LegResult, Question, TenantId
from tests.conftest import MakeTenant, open_service_database
from tests.fakes import FakeReranker, embedders
from tests.integration.corpus import prepared, scope, store

REFUNDS = "refunds are paid to the card within five working days after the parcel has come back to us in {}"
TEXTS = {
    "1.md": REFUNDS.format("Leiden"),
    "2.md": REFUNDS.format("Breda"),
    "3.md": REFUNDS.format("Delft"),
    "4.md": "the parcel has a label with a code",
    "5.md": "the parcel has a label with a name",
    "6.md": "refunds of vouchers are vouchers",
    "7.md": "parcels go by boat",
    "8.md": "boats sail at night",
    "9.md": "trains run at night",
}
QUESTIONS = (
    "when are refunds paid",
    "a label on the parcel",
    "boats at night",
    "refunds for parcels that came to Delft",
)


class Interrupted(FakeReranker):
    """A cross-encoder during whose work the document is deleted that it would put first."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        super().__init__()
        self._database = database
        self._tenant = tenant
        self.deleted = ""

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        self.deleted = next(name for name, text in TEXTS.items() if text in texts[0])
        async with self._database.tenant(self._tenant) as tx:
            await delete_document(tx, self.deleted)
        return await super().score(query, texts, deadline)


class Deleting:
    """A lexical leg after which a document is deleted."""

    def __init__(self, database: Database, external_id: str) -> None:
        self._leg = LexicalLeg(database)
        self._database = database
        self._external_id = external_id

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        found = await self._leg(tenant_id, question, depth, within=within)
        async with self._database.tenant(tenant_id) as tx:
            await delete_document(tx, self._external_id)
        return found


def retriever(database: Database, reranker: Reranker | None = None, *, lexical: Leg | None = None) -> Retriever:
    return Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=lexical or LexicalLeg(database),
        reranker=reranker or FakeReranker(),
        ranking=Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=2.0),
    )


async def filled(database: Database, tenant: TenantId, order: list[str], *, together: int) -> TenantId:
    for at in range(0, len(order), together):
        await store(database, tenant, [prepared(name, TEXTS[name]) for name in order[at : at + together]])
    return tenant


async def found(
    database: Database, tenant: TenantId, text: str, *, top_k: int = 100, rerank: bool = True
) -> list[tuple[str, float]]:
    result = await retriever(database).retrieve(tenant, Question(text, scope(), top_k, rerank))
    return [(hit.chunk.external_id, hit.score) for hit in result.hits]


@pytest.mark.parametrize("rerank", [True, False], ids=["reranked", "fused"])
@pytest.mark.parametrize("text", QUESTIONS)
async def test_fewer_results_are_the_first_of_more(
    database: Database, tenant: TenantId, text: str, rerank: bool
) -> None:
    await filled(database, tenant, sorted(TEXTS), together=9)

    every = await found(database, tenant, text, rerank=rerank)

    for top_k in range(1, len(every)):
        assert [name for name, _ in await found(database, tenant, text, top_k=top_k, rerank=rerank)] == [
            name for name, _ in every[:top_k]
        ]


@pytest.mark.parametrize("rerank", [True, False], ids=["reranked", "fused"])
async def test_fewer_results_are_the_first_of_more_than_one_looks_through(
    database: Database, tenant: TenantId, rerank: bool
) -> None:
    many = [prepared(f"{n}.md", f"label {n % 3} of parcel {n} {'by boat' if n % 2 else 'at night'}") for n in range(60)]
    await store(database, tenant, many)

    every = await found(database, tenant, "boat parcel 3 label 1", rerank=rerank)

    assert len(every) > 2 * HEAD
    for top_k in (1, HEAD - 1, HEAD, HEAD + 1, 2 * HEAD):
        assert await found(database, tenant, "boat parcel 3 label 1", top_k=top_k, rerank=rerank) == every[:top_k]


@pytest.mark.parametrize("way", ["boat", "train", "road"])
async def test_after_the_first_comes_what_is_like_the_best(database: Database, tenant: TenantId, way: str) -> None:
    best = [f"parcel label {way} {way} {' '.join(f'{word}{n}' for word in ('row', 'bay', 'box'))}" for n in range(HEAD)]
    others = ("boat", "train", "road", "night", "card", "code")
    rest = {
        other: f"parcel {other} {other} and so on, as far as it goes, until it is where it was to go"
        for other in others
    }
    texts = {**{f"{n}": text for n, text in enumerate(best)}, **rest}
    await store(database, tenant, [prepared(f"{name}.md", text) for name, text in texts.items()])

    names = [name for name, _ in await found(database, tenant, "label of a parcel", rerank=False)]

    assert names[HEAD] == f"{way}.md"
    assert sorted(names[HEAD:]) == sorted(f"{other}.md" for other in others)


@pytest.mark.parametrize("text", QUESTIONS)
async def test_the_order_of_ingestion_and_a_restart_change_nothing(
    database: Database, database_url: str, make_tenant: MakeTenant, text: str
) -> None:
    at_once = await filled(database, await make_tenant(), sorted(TEXTS), together=9)
    one_by_one = await filled(database, await make_tenant(), sorted(TEXTS, reverse=True), together=1)

    first = await found(database, at_once, text)
    second = await found(database, one_by_one, text)
    async with open_service_database(database_url) as restarted:
        third = await found(restarted, one_by_one, text)

    assert [name for name, _ in first] == [name for name, _ in second] == [name for name, _ in third]
    assert [score for _, score in first] == pytest.approx([score for _, score in second])


@pytest.mark.parametrize("rerank", [True, False], ids=["reranked", "fused"])
async def test_nor_does_it_where_there_are_many(database: Database, make_tenant: MakeTenant, rerank: bool) -> None:
    texts = {f"{n}.md": f"label {n % 3} of parcel {n} {'by boat' if n % 2 else 'at night'}" for n in range(60)}
    orders = [list(texts), list(reversed(texts)), sorted(texts)]
    tenants = [await make_tenant() for _ in orders]
    for tenant, order in zip(tenants, orders, strict=True):
        for at in range(0, 60, 17):
            await store(database, tenant, [prepared(name, texts[name]) for name in order[at : at + 17]])

    first, *others = [await found(database, tenant, "boat parcel 3 label 1", rerank=rerank) for tenant in tenants]

    assert len(first) > HEAD
    assert all([name for name, _ in other] == [name for name, _ in first] for other in others)


@pytest.mark.parametrize("rerank", [True, False], ids=["reranked", "fused"])
async def test_what_is_deleted_once_it_was_found_is_no_hit(database: Database, tenant: TenantId, rerank: bool) -> None:
    await filled(database, tenant, sorted(TEXTS), together=9)
    searching = retriever(database, lexical=Deleting(database, "4.md"))

    hits = (await searching.retrieve(tenant, Question("a label on the parcel", scope(), 9, rerank))).hits

    assert "4.md" not in {hit.chunk.external_id for hit in hits}
    assert len(hits) == len(TEXTS) - 1


async def test_what_repeats_a_better_one_comes_after_the_others(database: Database, tenant: TenantId) -> None:
    await filled(database, tenant, sorted(TEXTS), together=9)

    hits = await found(database, tenant, "when are refunds paid")

    names, scores = [name for name, _ in hits], [score for _, score in hits]
    assert names[0] in {"1.md", "2.md", "3.md"}
    assert set(names[-2:]) < {"1.md", "2.md", "3.md"}
    assert scores == sorted(scores, reverse=True)


async def test_what_repeats_only_one_that_was_deleted_meanwhile_is_no_repeat(
    database: Database, tenant: TenantId
) -> None:
    await filled(database, tenant, ["2.md", "3.md", "4.md", "5.md", "7.md"], together=5)
    reranker = Interrupted(database, tenant)

    found = await retriever(database, reranker).retrieve(tenant, Question("when are refunds paid", scope(), 10, True))

    assert {reranker.deleted, found.hits[0].chunk.external_id} == {"2.md", "3.md"}


async def test_the_version_that_the_question_names_is_no_repeat(database: Database, tenant: TenantId) -> None:
    await filled(database, tenant, sorted(TEXTS), together=9)

    hits = await found(database, tenant, "refunds for parcels that came to Delft")

    assert hits[0][0] == "3.md"
