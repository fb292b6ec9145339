from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from rag.analysis import analyse, term_id
from rag.retrieval.lexical import BATCHES, LexicalLeg
from rag.store.compaction import compact, compact_if_due
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.indexes import index_state
from rag.store.postings import K1, PIVOT, B
from rag.store.search import posting_blocks
from rag.store.writing import PreparedDocument
from rag.values import Facets, Leaf, Ranked, Scope, TenantId
from tests.conftest import MakeTenant
from tests.integration.corpus import ids_of, prepared, question, scope, store

VOCABULARY = [f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]
ZIPF = [1 / rank for rank in range(1, 61)]
ALL = 10_000  # deeper than any corpus here
IS_A = Leaf("doc_type", "eq", "a")


class LuceneBM25(BM25Okapi):
    """The published formula with our idf and our fixed pivot in place of the average length."""

    def __init__(self, corpus: Sequence[Sequence[str]]) -> None:
        super().__init__(corpus, k1=K1, b=B)  # type: ignore[no-untyped-call]  # it ships no types
        self.avgdl = PIVOT  # type: ignore[assignment]

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {term: math.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}


@pytest.fixture
def leg(database: Database) -> LexicalLeg:
    return LexicalLeg(database)


def random_corpus(rng: random.Random) -> list[PreparedDocument]:
    return [
        document(f"doc-{n}", *(words(rng, rng.randint(1, 40)) for _ in range(rng.randint(1, 3))), kind=rng.choice("ab"))
        for n in range(rng.randint(3, 15))
    ]


def words(rng: random.Random, number: int) -> str:
    return " ".join(rng.choices(VOCABULARY, ZIPF, k=number))


def document(external_id: str, *texts: str, kind: str = "a") -> PreparedDocument:
    vectors = np.full((len(texts), 384), 384**-0.5, np.float32)
    return prepared(external_id, *texts, facets=Facets(doc_type=kind), vectors=vectors)


def expected(
    tenant: TenantId, corpus: Sequence[PreparedDocument], query: str, kinds: Sequence[str] = "ab"
) -> Iterator[tuple[str, float]]:
    """Every text of the kinds with a score above zero, best first, ties in the order of storing."""
    oracle = LuceneBM25([list(terms) for one in corpus for terms in one.terms])
    scores = oracle.get_scores(analyse(query))  # type: ignore[no-untyped-call]
    chunks = [(chunk, one.facets.doc_type) for one in corpus for chunk in ids_of(one)]
    seen: set[str] = set()
    for n in np.argsort(-scores, kind="stable"):
        if scores[n] > 0 and chunks[n][1] in kinds and chunks[n][0] not in seen:
            seen.add(chunks[n][0])
            yield chunks[n][0], float(scores[n])


def assert_same(found: Sequence[Ranked], oracle: Sequence[tuple[str, float]]) -> None:
    scores = dict(oracle)
    assert {str(ranked.content) for ranked in found} == scores.keys()
    assert [ranked.score for ranked in found] == pytest.approx([score for _, score in oracle], abs=1e-3)
    # single precision may swap what differs by less
    in_our_order = [scores[str(ranked.content)] for ranked in found]
    assert all(here > after - 1e-5 for here, after in pairwise(in_our_order))
    assert [ranked.rank for ranked in found] == list(range(1, len(found) + 1))


async def search(leg: LexicalLeg, tenant: TenantId, query: str, within: Scope | None = None) -> tuple[Ranked, ...]:
    return (await leg(tenant, question(query, within), ALL)).ranked


async def test_scores_and_order_are_those_of_the_published_formula(
    database: Database, leg: LexicalLeg, make_tenant: MakeTenant
) -> None:
    for seed in range(200):
        rng = random.Random(seed)
        corpus, query = random_corpus(rng), words(rng, rng.randint(1, 5))
        tenant = await make_tenant()
        await store(database, tenant, corpus)

        everything = await search(leg, tenant, query)
        filtered = await search(leg, tenant, query, scope(IS_A))

        assert_same(everything, list(expected(tenant, corpus, query)))
        assert_same(filtered, list(expected(tenant, corpus, query, kinds="a")))


async def test_one_term_scores_as_worked_out_by_hand(database: Database, leg: LexicalLeg, tenant: TenantId) -> None:
    await store(database, tenant, [document("one", "parcel parcel train boat"), document("two", "train")])

    [found] = await search(leg, tenant, "parcel")

    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    weight = 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 100))
    assert found.score == pytest.approx(idf * weight, rel=1e-6)


async def test_a_depth_cuts_the_ranking_and_changes_nothing_else(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    rng = random.Random(7)
    await store(database, tenant, [document(f"doc-{n}", words(rng, 12)) for n in range(200)])
    everything = await search(leg, tenant, "wordaa wordab wordac")

    cut = await leg(tenant, question("wordaa wordab wordac"), 50)

    assert len(everything) > 150
    assert cut.ranked == everything[:50]


async def test_unknown_terms_find_nothing(database: Database, leg: LexicalLeg, tenant: TenantId) -> None:
    await store(database, tenant, [document("one", "parcels go by train")])

    for query in ("zeppelin", "the and of", "?!", "", "  \n"):
        assert await search(leg, tenant, query) == ()


async def test_a_tenant_without_documents_finds_nothing(leg: LexicalLeg, tenant: TenantId) -> None:
    assert await search(leg, tenant, "train") == ()


async def test_known_terms_count_though_others_are_unknown(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    await store(database, tenant, [document("one", "parcels go by train")])

    [alone], [beside] = await search(leg, tenant, "train"), await search(leg, tenant, "zeppelin train")

    assert alone == beside


async def test_each_language_of_the_tenant_is_searched_by_its_own_rules(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    german = prepared("de", "Die Häuser sind alt", facets=Facets(lang="de"))
    await store(database, tenant, [german, prepared("en", "The houses are old")])

    assert [str(r.content) for r in await search(leg, tenant, "Haus")] == ids_of(german)
    assert len(await search(leg, tenant, "house")) == 1


async def test_replaced_and_deleted_chunks_are_never_found(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    await store(database, tenant, [document("one", "zebra common", "walrus common"), document("two", "common")])

    await store(database, tenant, [document("one", "giraffe common")])
    async with database.tenant(tenant) as tx:
        await delete_document(tx, "two")
        state = await index_state(tx)

    assert (state.posted, state.dead) == (4, 3)  # the postings still hold them
    assert await search(leg, tenant, "zebra walrus") == ()
    assert [str(r.content) for r in await search(leg, tenant, "common")] == ids_of(document("one", "giraffe common"))


async def test_compaction_gives_the_scores_of_a_fresh_index(
    database: Database, leg: LexicalLeg, make_tenant: MakeTenant
) -> None:
    rng = random.Random(11)
    worn = await make_tenant()
    versions = [[document(f"doc-{n}", words(rng, 15), words(rng, 9)) for n in range(20)] for _ in range(4)]
    for version in versions:
        for one in version:
            await store(database, worn, [one])
    async with database.tenant(worn) as tx:
        for n in range(10):
            await delete_document(tx, f"doc-{n}")

    async with database.tenant(worn) as tx:
        await compact(tx)

    left = versions[-1][10:]
    for query in ("wordaa", "wordab wordac wordbh", words(rng, 5)):
        assert_same(await search(leg, worn, query), list(expected(worn, left, query)))
    async with database.tenant(worn) as tx:
        assert (await index_state(tx)).dead == 0


async def test_many_small_ingests_equal_one_large_one_after_compaction(
    database: Database, leg: LexicalLeg, make_tenant: MakeTenant
) -> None:
    rng = random.Random(12)
    corpus = [document(f"doc-{n}", words(rng, 12)) for n in range(60)]
    once, often = await make_tenant(), await make_tenant()
    await store(database, once, corpus)
    for one in corpus:
        await store(database, often, [one])

    async with database.tenant(often) as tx:
        compacted = await compact_if_due(tx)

    assert compacted
    async with database.tenant(once) as first, database.tenant(often) as second:
        wanted = {"generation": 1, "low": -(2**63), "high": 2**63 - 1}
        assert await first.fetch("all_postings", **wanted) == await second.fetch("all_postings", **wanted)
    assert [(r.rank, r.score) for r in await search(leg, once, "wordaa wordad")] == [
        (r.rank, r.score) for r in await search(leg, often, "wordaa wordad")
    ]


async def test_compaction_is_not_due_for_a_fresh_index(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [document("one", "parcels go by train")])

    async with database.tenant(tenant) as tx:
        assert await compact_if_due(tx) is False


async def test_a_term_of_more_chunks_than_a_block_holds_scores_alike(
    database: Database, leg: LexicalLeg, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.store.postings.BLOCK", 7)
    rng = random.Random(13)
    corpus = [document(f"doc-{n}", words(rng, 10)) for n in range(50)]
    await store(database, tenant, corpus[:20])
    await store(database, tenant, corpus[20:])

    before = await search(leg, tenant, "wordaa wordab")
    async with database.tenant(tenant) as tx:
        await compact(tx)

    assert_same(before, list(expected(tenant, corpus, "wordaa wordab")))
    assert await search(leg, tenant, "wordaa wordab") == before


async def test_ties_go_by_content_whatever_the_order_of_storing(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    corpus = [document(f"doc-{n}", f"parcels go by train {n}") for n in range(80)]
    await store(database, tenant, corpus)
    order = sorted(chunk for one in corpus for chunk in ids_of(one))

    for depth in (1, 10, 50, 80):
        found = (await leg(tenant, question("train"), depth)).ranked
        assert [str(ranked.content) for ranked in found] == order[:depth]


async def test_a_selective_filter_finds_its_chunks_behind_thousands_of_better_ones(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    crowd = document("crowd", *(f"train {n}" for n in range(sum(BATCHES) + 200)), kind="b")
    wanted = [document(f"doc-{n}", "train" + " and more besides" * (n + 5)) for n in range(3)]
    await store(database, tenant, [crowd, *wanted])

    found = await leg(tenant, question("train", scope(IS_A)), 50)

    assert [str(ranked.content) for ranked in found.ranked] == [chunk for one in wanted for chunk in ids_of(one)]
    assert_same(found.ranked, list(expected(tenant, [crowd, *wanted], "train", kinds="a")))


async def test_the_best_fifty_pass_though_most_candidates_are_deleted(
    database: Database, leg: LexicalLeg, tenant: TenantId
) -> None:
    gone = document("gone", *(f"train {n}" for n in range(900)))
    kept = document("kept", *(f"train and more {n}" for n in range(60)))
    await store(database, tenant, [gone, kept])

    async with database.tenant(tenant) as tx:
        await delete_document(tx, "gone")
    found = await leg(tenant, question("train"), 50)

    assert [str(ranked.content) for ranked in found.ranked] == sorted(ids_of(kept))[:50]


async def test_counters_and_postings_are_of_one_moment(database: Database, tenant: TenantId) -> None:
    await store(database, tenant, [document("one", "parcels go by train")])

    async with database.snapshot(tenant) as tx:
        before = await index_state(tx)
        await store(database, tenant, [document("two", "parcels go by boat")])
        blocks = await posting_blocks(tx, [term_id("parcel")], generation=1)
        after = await index_state(tx)

    assert before == after
    assert [block.ords.tolist() for block in blocks] == [[0]]
