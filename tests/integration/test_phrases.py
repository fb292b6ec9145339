from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from ingest.pipeline import Pipeline, Source
from rag.analysis import folded
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.phrases import holding, phrases
from rag.retrieval.retriever import Retriever
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.values import Facets, Hit, Leaf, Retrieval, Scope, TenantId
from tests.fakes import FakeReranker, embedders, parse_directly
from tests.integration.corpus import ids_of, prepared, question, scope, store

WORDS = ["the", "of", "to", "be", "annual", "leaves", "Büro-Schlüssel", "getUser", "5", "C++"]
STOP = "To be or not to be, that is the question."


@pytest.fixture
def retriever(database: Database) -> Retriever:
    return Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=Ranking(rerank_top=50, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0),
    )


async def search(retriever: Retriever, tenant: TenantId, text: str, within: Scope | None = None) -> Retrieval:
    return await retriever.retrieve(tenant, replace(question(text, within, top_k=100), rerank=False))


async def found(retriever: Retriever, tenant: TenantId, text: str, within: Scope | None = None) -> list[str]:
    return [hit.chunk.external_id for hit in (await search(retriever, tenant, text, within)).hits]


def in_both_legs(hits: Sequence[Hit]) -> bool:
    return all(hit.dense and hit.lexical for hit in hits)


@pytest.fixture
async def policies(database: Database, tenant: TenantId) -> TenantId:
    texts = {
        "exact": "The annual leave policy grants 25 days.",
        "broken": "Ask HR about ANNUAL\n  leave before you travel.",
        "apart": "Leave the annual report on the desk.",
        "longer": "Biannual leave is another matter.",
        "quote": STOP,
    }
    await store(database, tenant, [prepared(name, text) for name, text in texts.items()])
    return tenant


async def test_only_chunks_with_the_phrase_are_found_and_by_both_legs(retriever: Retriever, policies: TenantId) -> None:
    hits = (await search(retriever, policies, '"annual leave"')).hits

    assert {hit.chunk.external_id for hit in hits} == {"exact", "broken"}
    assert in_both_legs(hits)


async def test_the_rest_of_the_question_ranks_them(retriever: Retriever, policies: TenantId) -> None:
    assert await found(retriever, policies, 'travel with "annual leave" HR') == ["broken", "exact"]
    assert await found(retriever, policies, 'days granted by policy for "annual leave"') == ["exact", "broken"]


async def test_a_chunk_must_have_every_phrase(retriever: Retriever, policies: TenantId) -> None:
    assert await found(retriever, policies, '“annual leave” and "25 days"') == ["exact"]
    assert await found(retriever, policies, '"annual leave" "annual report"') == []


async def test_a_phrase_that_nothing_has_finds_nothing(retriever: Retriever, policies: TenantId) -> None:
    result = await search(retriever, policies, 'annual leave "parental leave"')

    assert (result.hits, result.complete, result.missing_phrases) == ((), True, ("parental leave",))


async def test_of_several_phrases_those_are_named_that_no_chunk_has(retriever: Retriever, policies: TenantId) -> None:
    async def missing(text: str) -> tuple[str, ...]:
        return (await search(retriever, policies, text)).missing_phrases

    assert await missing('"annual leave" «Parental Leave» "leave annual"') == ("Parental Leave", "leave annual")
    assert await missing('"annual leave" "annual report"') == ()  # in two chunks
    assert await missing('"annual leave" "25 days"') == ()
    assert await missing("parental leave") == ()


async def test_a_phrase_is_missing_for_those_who_may_not_see_where_it_stands(
    database: Database, retriever: Retriever, tenant: TenantId
) -> None:
    facets = {"open": Facets(doc_type="note"), "closed": Facets(acl=("hr",))}
    texts = {"open": "annual leave", "closed": "parental leave"}
    await store(database, tenant, [prepared(name, texts[name], facets=f) for name, f in facets.items()])
    both, notes = '"annual leave" "parental leave"', Leaf("doc_type", "eq", "note")

    outside = await search(retriever, tenant, both)
    member = await search(retriever, tenant, both, scope(groups=["hr"]))
    filtered = await search(retriever, tenant, both, scope(notes, groups=["hr"]))

    assert [found.missing_phrases for found in (outside, member, filtered)] == [
        ("parental leave",), (), ("parental leave",),
    ]  # fmt: skip


async def test_a_phrase_that_may_stand_in_an_unread_text_is_not_called_missing(
    database: Database, retriever: Retriever, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.retrieval.phrases.MOST_READ", 10)
    await store(database, tenant, [prepared(f"doc-{n:02}", f"{STOP} {n}") for n in range(12)])

    one = await search(retriever, tenant, '"not be or to"')
    two = await search(retriever, tenant, '"not be or to" "parental leave"')

    assert (one.hits, one.missing_phrases, one.complete) == ((), (), False)
    assert two.missing_phrases == ("parental leave",)


async def test_phrases_that_many_chunks_may_have_are_not_read_for_to_name_them(
    database: Database, retriever: Retriever, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.retrieval.phrases.MOST_READ_ALONE", 10)
    monkeypatch.setattr("rag.retrieval.phrases.MOST_ALONE", 2)
    many = [prepared(f"doc-{n:02}", f"leave {n} is annual") for n in range(12)]
    await store(database, tenant, [*many, prepared("last", "parental leave for 25 days")])

    common = await search(retriever, tenant, '"annual leave" "leave parental"')
    of_stop_words = await search(retriever, tenant, '"not be or to" "leave parental"')
    third = await search(retriever, tenant, '"parental leave" "25 days" "days 25"')

    assert common.missing_phrases == of_stop_words.missing_phrases == ("leave parental",)
    assert (third.hits, third.missing_phrases) == ((), ())


async def test_a_question_without_quotes_is_not_looked_up_for_phrases(retriever: Retriever, policies: TenantId) -> None:
    plain = await search(retriever, policies, "annual leave")
    quoting = await search(retriever, policies, '"annual leave"')

    assert ["phrases" in found.timings_ms for found in (plain, quoting)] == [False, True]


@pytest.mark.parametrize("text", ['annual leave" policy', 'annual leave policy "?!"', 'annual leave policy ""'])
async def test_marks_that_quote_nothing_narrow_nothing(retriever: Retriever, policies: TenantId, text: str) -> None:
    assert len(await found(retriever, policies, text)) == 5


async def test_a_phrase_of_stop_words_is_found_by_both_legs(retriever: Retriever, policies: TenantId) -> None:
    result = await search(retriever, policies, '"to be or not to be"')

    assert [hit.chunk.external_id for hit in result.hits] == ["quote"]
    assert in_both_legs(result.hits)
    assert result.complete


async def test_a_phrase_of_stop_words_is_read_in_the_newest_chunks_when_there_are_too_many(
    database: Database, retriever: Retriever, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.retrieval.phrases.MOST_READ", 10)
    await store(database, tenant, [prepared(f"doc-{n:02}", f"{STOP} {n}") for n in range(12)])

    result = await search(retriever, tenant, '"to be or not to be"')

    assert sorted(hit.chunk.external_id for hit in result.hits) == [f"doc-{n:02}" for n in range(2, 12)]
    assert not result.complete


async def test_a_phrase_respects_filters_groups_and_tenants(
    database: Database, retriever: Retriever, tenant: TenantId, make_tenant: object
) -> None:
    facets = {"a": Facets(doc_type="guide"), "b": Facets(doc_type="note"), "c": Facets(doc_type="guide", acl=("hr",))}
    await store(database, tenant, [prepared(name, f"annual leave {name}", facets=f) for name, f in facets.items()])
    other = await make_tenant()  # type: ignore[operator]
    guides = Leaf("doc_type", "eq", "guide")

    assert await found(retriever, tenant, '"annual leave"', scope(guides)) == ["a"]
    assert sorted(await found(retriever, tenant, '"annual leave"', scope(guides, groups=["hr"]))) == ["a", "c"]
    assert sorted(await found(retriever, tenant, '"annual leave"')) == ["a", "b"]
    assert await found(retriever, other, '"annual leave"') == []


async def test_a_rare_phrase_is_found_among_hundreds_that_have_its_words_and_rank_better(
    database: Database, retriever: Retriever, tenant: TenantId
) -> None:
    crowd = [f"leave annual, annual! leave, leave; annual {n}" for n in range(700)]
    rare = [f"{'other words ' * 20} annual leave {n}" for n in range(60)]
    await store(database, tenant, [prepared("crowd", *crowd), prepared("rare", *rare)])

    result = await search(retriever, tenant, '"annual leave"')

    assert {hit.chunk.external_id for hit in result.hits} == {"rare"}
    assert len(result.hits) >= 50  # the depth of a leg


async def test_a_phrase_may_stand_in_the_title_or_heading(
    database: Database, retriever: Retriever, tenant: TenantId
) -> None:
    pipeline = Pipeline(database, embedders(), parse_directly)
    sources = [
        Source("handbook.md", b"# Staff handbook\n\n## Annual leave\n\nEveryone has 25 days.", "text/markdown"),
        Source("other.md", b"# Other\n\nEveryone has a desk.", "text/markdown"),
    ]
    await pipeline.ingest(tenant, sources)

    assert await found(retriever, tenant, '"annual leave"') == ["handbook.md"]


async def test_a_deleted_chunk_holds_no_phrase(database: Database, retriever: Retriever, policies: TenantId) -> None:
    async with database.tenant(policies) as tx:
        await delete_document(tx, "exact")

    assert await found(retriever, policies, '"annual leave"') == ["broken"]


async def test_a_chunk_without_a_vector_is_found_by_its_phrase(
    database: Database, retriever: Retriever, tenant: TenantId
) -> None:
    await store(database, tenant, [replace(prepared("one", STOP), quarantined={0: "refused"})])

    assert await found(retriever, tenant, '"to be or not to be"') == ["one"]


@pytest.mark.parametrize("langs", [["en"], ["en", "de"], ["ja", "tr"]])
async def test_the_chunks_are_those_that_reading_every_text_gives(
    database: Database, tenant: TenantId, owner: psycopg.Connection, langs: list[str]
) -> None:
    rng = random.Random(len(langs[0]))
    documents = [
        prepared(f"{n}", "".join(rng.choice(WORDS) + rng.choice([" ", "\n", "-", "."]) for _ in range(12)),
                 facets=Facets(lang=rng.choice(langs)))
        for n in range(300)
    ]  # fmt: skip
    await store(database, tenant, documents)
    rows = owner.execute("SELECT ord, indexed FROM chunks WHERE tenant_id = %s", (tenant,)).fetchall()

    sizes = []
    for _ in range(60):
        wanted = phrases(f'"{" ".join(rng.choices(WORDS, k=rng.randint(1, 3)))}"'.lower())
        held = await holding(database, tenant, scope(), wanted)
        expected = [ord_ for ord_, text in rows if all(phrase.stands_in(folded(text)) for phrase in wanted)]
        assert held.ords.tolist() == sorted(expected), wanted
        sizes.append(len(expected))

    assert len(set(sizes)) > 10


async def test_within_given_chunks_each_leg_ranks_as_without_the_others(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    documents = [prepared(f"doc-{n}", f"train {n} " + "parcel " * (n % 7)) for n in range(200)]
    await store(database, tenant, documents)
    kept = {id_ for document in documents[::3] for id_ in ids_of(document)}
    rows = owner.execute("SELECT ord, content FROM chunks WHERE tenant_id = %s ORDER BY ord", (tenant,)).fetchall()
    within = np.array([ord_ for ord_, content in rows if str(content) in kept], np.int32)

    for leg in (DenseLeg(database, embedders(), exact_below=10_000), LexicalLeg(database)):
        everything = [r.content for r in (await leg(tenant, question("parcel train"), 1000)).ranked]
        narrowed = [r.content for r in (await leg(tenant, question("parcel train"), 20, within=within)).ranked]
        assert narrowed == [content for content in everything if str(content) in kept][:20]
