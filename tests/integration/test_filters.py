from __future__ import annotations

from datetime import UTC, datetime

import pytest
import pytest_asyncio

from rag.retrieval.dense import DenseLeg
from rag.retrieval.filters import parse_filter
from rag.retrieval.lexical import LexicalLeg
from rag.store.engine import Database
from rag.store.search import count_matching, load_chunks, scoped_ords
from rag.store.tenancy import create_tenant
from rag.values import Facets, Scope, TenantId
from tests.fakes import embedders
from tests.integration.corpus import prepared, question, scope, store

DOCUMENTS = {
    "a": Facets(doc_type="guide", source="wiki", lang="en", tags=("billing", "eu"), metadata={"n": 1, "s": "1"}),
    "b": Facets(
        doc_type="guide", source="mail", lang="de", tags=("billing",), metadata={"n": 2, "s": "Zebra", "f": 2.5}
    ),
    "c": Facets(doc_type="note", source="wiki", lang="en", metadata={"n": "1", "b": True}),
    "d": Facets(doc_type=None, source=None, lang="fr", metadata={"n": True, "b": "true", "e": ""}),
    "e": Facets(doc_type="Guide", source="wiki", lang="en", tags=("50%_off",), metadata={"n": -10, "a.b": "deep"}),
    "f": Facets(doc_type="", lang="en", metadata={"n": 10, "b": False, "big": 2**60}),
    "'": Facets(doc_type="guide", metadata={"ключ": "да", "it's": 1}),
}
EVERYTHING = "".join(DOCUMENTS)

CASES: list[tuple[object, str]] = [
    # absent and empty
    (None, EVERYTHING),
    ({"all": []}, EVERYTHING),
    ({"any": []}, ""),
    ({"not": {"any": []}}, EVERYTHING),
    ({"not": {"all": []}}, ""),
    ({"field": "doc_type", "op": "in", "value": []}, ""),
    ({"not": {"field": "doc_type", "op": "in", "value": []}}, EVERYTHING),
    # text fields
    ({"field": "doc_type", "op": "eq", "value": "guide"}, "ab'"),
    ({"field": "doc_type", "op": "eq", "value": ""}, "f"),
    ({"field": "doc_type", "op": "eq", "value": "absent"}, ""),
    ({"field": "doc_type", "op": "ne", "value": "guide"}, "cdef"),
    ({"field": "doc_type", "op": "in", "value": ["note", "Guide", "absent"]}, "ce"),
    ({"field": "doc_type", "op": "lt", "value": "guide"}, "ef"),
    ({"field": "doc_type", "op": "lte", "value": "guide"}, "abef'"),
    ({"field": "doc_type", "op": "gt", "value": "guide"}, "c"),
    ({"field": "doc_type", "op": "gte", "value": "guide"}, "abc'"),
    ({"field": "doc_type", "op": "exists", "value": True}, "abcef'"),
    ({"field": "doc_type", "op": "exists", "value": False}, "d"),
    ({"field": "doc_type", "op": "contains", "value": "uid"}, "abe'"),
    ({"field": "source", "op": "contains", "value": "%"}, ""),
    ({"field": "source", "op": "eq", "value": "wiki"}, "ace"),
    ({"field": "source", "op": "ne", "value": "wiki"}, "bdf'"),
    ({"field": "source", "op": "exists", "value": False}, "df'"),
    ({"field": "lang", "op": "eq", "value": "de"}, "b"),
    ({"field": "lang", "op": "in", "value": ["de", "fr"]}, "bd"),
    ({"field": "external_id", "op": "eq", "value": "a"}, "a"),
    ({"field": "external_id", "op": "eq", "value": "'"}, "'"),
    ({"field": "external_id", "op": "contains", "value": "'"}, "'"),
    ({"field": "external_id", "op": "lt", "value": "c"}, "ab'"),
    # tags
    ({"field": "tags", "op": "eq", "value": "billing"}, "ab"),
    ({"field": "tags", "op": "contains", "value": "billing"}, "ab"),
    ({"field": "tags", "op": "contains", "value": "bill"}, ""),
    ({"field": "tags", "op": "contains", "value": "50%_off"}, "e"),
    ({"field": "tags", "op": "ne", "value": "billing"}, "cdef'"),
    ({"field": "tags", "op": "in", "value": ["eu", "50%_off"]}, "ae"),
    ({"field": "tags", "op": "exists", "value": True}, "abe"),
    ({"field": "tags", "op": "exists", "value": False}, "cdf'"),
    # metadata: a value compares with its own kind only
    ({"field": "metadata.n", "op": "eq", "value": 1}, "a"),
    ({"field": "metadata.n", "op": "eq", "value": 1.0}, "a"),
    ({"field": "metadata.n", "op": "eq", "value": "1"}, "c"),
    ({"field": "metadata.n", "op": "eq", "value": True}, "d"),
    ({"field": "metadata.n", "op": "ne", "value": 1}, "bcdef'"),
    ({"field": "metadata.n", "op": "in", "value": [1, "1", True]}, "acd"),
    ({"field": "metadata.n", "op": "lt", "value": 2}, "ae"),
    ({"field": "metadata.n", "op": "lte", "value": 2}, "abe"),
    ({"field": "metadata.n", "op": "gt", "value": 1.5}, "bf"),
    ({"field": "metadata.n", "op": "gte", "value": -10}, "abef"),
    ({"field": "metadata.n", "op": "gt", "value": "0"}, "c"),
    ({"field": "metadata.n", "op": "lt", "value": 10**300}, "abef"),
    ({"field": "metadata.f", "op": "eq", "value": 2.5}, "b"),
    ({"field": "metadata.big", "op": "eq", "value": 2**60}, "f"),
    ({"field": "metadata.big", "op": "eq", "value": 2**60 + 1}, ""),
    ({"field": "metadata.big", "op": "gt", "value": 1e18}, "f"),
    ({"field": "metadata.s", "op": "lt", "value": "a"}, "ab"),
    ({"field": "metadata.s", "op": "contains", "value": "ebr"}, "b"),
    ({"field": "metadata.s", "op": "contains", "value": ""}, "ab"),
    ({"field": "metadata.b", "op": "eq", "value": True}, "c"),
    ({"field": "metadata.b", "op": "eq", "value": False}, "f"),
    ({"field": "metadata.b", "op": "eq", "value": "true"}, "d"),
    ({"field": "metadata.b", "op": "ne", "value": True}, "abdef'"),
    ({"field": "metadata.e", "op": "exists", "value": True}, "d"),
    ({"field": "metadata.n", "op": "exists", "value": False}, "'"),
    ({"field": "metadata.a.b", "op": "eq", "value": "deep"}, "e"),
    ({"field": "metadata.ключ", "op": "eq", "value": "да"}, "'"),
    ({"field": "metadata.it's", "op": "eq", "value": 1}, "'"),
    ({"field": "metadata.%(x)s", "op": "eq", "value": "%s"}, ""),
    ({"field": "metadata.absent", "op": "eq", "value": 1}, ""),
    # a document without the field does not match, so its negation does
    ({"not": {"field": "doc_type", "op": "eq", "value": "guide"}}, "cdef"),
    ({"not": {"field": "doc_type", "op": "lt", "value": "guide"}}, "abcd'"),
    ({"not": {"field": "doc_type", "op": "ne", "value": "guide"}}, "ab'"),
    ({"not": {"field": "doc_type", "op": "exists", "value": True}}, "d"),
    ({"not": {"field": "metadata.n", "op": "lt", "value": 2}}, "bcdf'"),
    ({"not": {"field": "metadata.s", "op": "contains", "value": "ebr"}}, "acdef'"),
    ({"not": {"not": {"field": "source", "op": "eq", "value": "wiki"}}}, "ace"),
    ({"not": {"field": "source", "op": "in", "value": ["wiki", "mail"]}}, "df'"),
    # combined
    ({"all": [{"field": "lang", "op": "eq", "value": "en"}, {"field": "source", "op": "eq", "value": "wiki"}]}, "ace"),
    ({"any": [{"field": "lang", "op": "eq", "value": "de"}, {"field": "tags", "op": "eq", "value": "eu"}]}, "ab"),
    ({"all": [{"field": "lang", "op": "eq", "value": "de"}, {"field": "lang", "op": "eq", "value": "fr"}]}, ""),
    ({"not": {"any": [{"field": "lang", "op": "eq", "value": "en"}, {"any": []}]}}, "bd"),
    (
        {"all": [{"not": {"field": "metadata.n", "op": "gt", "value": 0}}, {"any": [{"all": []}]}]},
        "cde'",
    ),
    # times without a document that has them
    ({"field": "valid_from", "op": "exists", "value": False}, EVERYTHING),
    ({"field": "valid_from", "op": "lt", "value": "2026-01-01"}, ""),
    ({"not": {"field": "valid_from", "op": "lt", "value": "2026-01-01"}}, EVERYTHING),
    ({"field": "created_at", "op": "gt", "value": "2020-01-01"}, EVERYTHING),
    ({"field": "created_at", "op": "lt", "value": "2020-01-01T00:00:00+02:00"}, ""),
    ({"field": "created_at", "op": "exists", "value": True}, EVERYTHING),
]

PERIODS = {
    "always": Facets(),
    "until-march": Facets(valid_to=datetime(2026, 3, 1, tzinfo=UTC)),
    "from-march": Facets(valid_from=datetime(2026, 3, 1, tzinfo=UTC)),
    "in-may": Facets(valid_from=datetime(2026, 5, 1, tzinfo=UTC), valid_to=datetime(2026, 6, 1, tzinfo=UTC)),
}

GROUPS = {
    "open": Facets(),
    "hr": Facets(acl=("hr",)),
    "law": Facets(acl=("law",)),
    "both": Facets(acl=("hr", "law")),
}


async def tenant_of(database: Database, name: str, documents: dict[str, Facets]) -> TenantId:
    tenant = await create_tenant(database, name)
    await store(database, tenant, [prepared(key, f"common text {key}", facets=f) for key, f in documents.items()])
    return tenant


@pytest_asyncio.fixture(scope="module")
async def facetted(database: Database) -> TenantId:
    return await tenant_of(database, "facetted", DOCUMENTS)


@pytest_asyncio.fixture(scope="module")
async def dated(database: Database) -> TenantId:
    return await tenant_of(database, "dated", PERIODS)


@pytest_asyncio.fixture(scope="module")
async def grouped(database: Database) -> TenantId:
    return await tenant_of(database, "grouped", GROUPS)


async def seen(database: Database, tenant: TenantId, within: Scope) -> list[str]:
    """The external ids in scope, on which every way to read must agree."""
    legs = DenseLeg(database, embedders(), exact_below=100), LexicalLeg(database)
    dense, lexical = [{r.content for r in (await leg(tenant, question("common", within), 50)).ranked} for leg in legs]
    async with database.tenant(tenant) as tx:
        chunks = await load_chunks(tx, within, sorted(dense), generation=1)
        counted, ords = await count_matching(tx, within), await scoped_ords(tx, within, generation=1)
    assert dense == lexical == chunks.keys()
    assert len(dense) == counted == len(ords)
    return sorted(chunk.external_id for chunk in chunks.values())


@pytest.mark.parametrize(("raw", "expected"), CASES, ids=[str(raw) for raw, _ in CASES])
async def test_a_filter_keeps_exactly(database: Database, facetted: TenantId, raw: object, expected: str) -> None:
    found = await seen(database, facetted, scope(parse_filter(raw)))

    assert found == sorted(key for key in DOCUMENTS if key in expected)


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("2026-01-01", ["always", "until-march"]),
        ("2026-02-28T23:59:59.999999", ["always", "until-march"]),
        ("2026-03-01", ["always", "from-march"]),  # from its first moment, until before its last
        ("2026-05-15", ["always", "from-march", "in-may"]),
        ("2026-06-01", ["always", "from-march"]),
    ],
)
async def test_a_document_is_seen_from_valid_from_until_before_valid_to(
    database: Database, dated: TenantId, as_of: str, expected: list[str]
) -> None:
    found = await seen(database, dated, scope(as_of=datetime.fromisoformat(as_of).replace(tzinfo=UTC)))

    assert found == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"field": "valid_to", "op": "exists", "value": True}, ["in-may"]),
        ({"field": "valid_from", "op": "eq", "value": "2026-05-01"}, ["in-may"]),
        ({"field": "valid_from", "op": "eq", "value": "2026-05-01T02:00:00+02:00"}, ["in-may"]),
        ({"field": "valid_from", "op": "in", "value": ["2026-03-01", "2026-05-01"]}, ["from-march", "in-may"]),
        ({"field": "valid_from", "op": "gt", "value": "2026-03-01"}, ["in-may"]),
        ({"field": "valid_from", "op": "ne", "value": "2026-03-01"}, ["always", "in-may"]),
    ],
)
async def test_times_are_filtered_within_what_is_valid(
    database: Database, dated: TenantId, raw: object, expected: list[str]
) -> None:
    found = await seen(database, dated, scope(parse_filter(raw), as_of=datetime(2026, 5, 15, tzinfo=UTC)))

    assert found == expected


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), ["open"]),
        (("hr",), ["both", "hr", "open"]),
        (("law",), ["both", "law", "open"]),
        (("hr", "law"), ["both", "hr", "law", "open"]),
        (("sales",), ["open"]),
        (("HR", "", "{}", "%"), ["open"]),
    ],
)
async def test_a_document_with_groups_is_seen_by_their_members_only(
    database: Database, grouped: TenantId, groups: tuple[str, ...], expected: list[str]
) -> None:
    found = await seen(database, grouped, scope(groups=groups))

    assert found == expected


async def test_no_filter_opens_a_document_to_another_group(database: Database, grouped: TenantId) -> None:
    widest = parse_filter({"any": [{"all": []}, {"field": "external_id", "op": "eq", "value": "hr"}]})

    found = await seen(database, grouped, scope(widest))

    assert found == ["open"]
