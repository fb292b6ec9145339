from __future__ import annotations

from datetime import UTC, datetime
from typing import Any as Anything

import pytest

from rag.errors import InvalidInput
from rag.retrieval.filters import MAX_DEPTH, MAX_LEAVES, parse_filter, parse_moment
from rag.values import All, Any, Leaf, Not

GUIDE = {"field": "doc_type", "op": "eq", "value": "guide"}


def leaf(field: str, op: str, value: object) -> dict[str, object]:
    return {"field": field, "op": op, "value": value}


def nested(depth: int) -> dict[str, Anything]:
    part: dict[str, Anything] = GUIDE
    for _ in range(depth):
        part = {"not": part}
    return part


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        (None, None),
        (GUIDE, Leaf("doc_type", "eq", "guide")),
        (leaf("source", "ne", ""), Leaf("source", "ne", "")),
        (leaf("lang", "in", []), Leaf("lang", "in", ())),
        (leaf("tags", "contains", "x"), Leaf("tags", "contains", "x")),
        (leaf("tags", "exists", False), Leaf("tags", "exists", False)),
        (leaf("metadata.a.b", "gte", 1.5), Leaf("metadata.a.b", "gte", 1.5)),
        (leaf("metadata.paid", "eq", True), Leaf("metadata.paid", "eq", True)),
        (leaf("metadata.n", "in", [1, "1", True]), Leaf("metadata.n", "in", (1, "1", True))),
        (leaf("valid_to", "lt", "2026-01-31"), Leaf("valid_to", "lt", datetime(2026, 1, 31, tzinfo=UTC))),
        ({"all": []}, All(())),
        ({"any": []}, Any(())),
        ({"not": {"all": [GUIDE]}}, Not(All((Leaf("doc_type", "eq", "guide"),)))),
    ],
)
def test_a_well_formed_filter_becomes_typed(raw: object, parsed: object) -> None:
    assert parse_filter(raw) == parsed


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ([], "filters: expected an object such as"),
        ("doc_type=guide", "filters: expected an object such as"),
        ({}, r"filters: expected exactly field, op and value, or one of all, any, not; got \[\]"),
        ({"field": "lang", "op": "eq"}, r"got \['field', 'op'\]"),
        ({"field": "lang", "op": "exists"}, "the value of exists is true or false; got"),
        ({**GUIDE, "boost": 2}, r"got \['boost', 'field', 'op', 'value'\]"),
        ({"all": [], "any": []}, r"got \['all', 'any'\]"),
        ({"all": GUIDE}, "filters.all: expected a list"),
        ({"any": None}, "filters.any: expected a list"),
        ({"any": [GUIDE, 5]}, r"filters.any\[1\]: expected an object"),
        ({"not": [GUIDE]}, "filters.not: expected an object"),
        (leaf("acl", "eq", "hr"), "filters: unknown field 'acl'; the fields are doc_type, source"),
        (leaf("tenant_id", "eq", "x"), "unknown field 'tenant_id'"),
        (leaf("metadata.", "eq", "x"), "unknown field 'metadata.'"),
        (leaf("metadata." + "k" * 1001, "eq", "x"), "unknown field"),
        (leaf("metadata.a\0", "eq", "x"), "unknown field"),
        ({"field": 5, "op": "eq", "value": "x"}, "unknown field 5"),
        (leaf("lang", "like", "e%"), "filters: unknown op 'like'; the ops are eq, ne, in, lt, lte, gt, gte, exists"),
        (leaf("lang", ["eq"], "en"), r"unknown op \['eq'\]"),  # type: ignore[arg-type]
        (leaf("lang", "exists", "true"), 'filters: lang exists: its "value" is true'),
        (leaf("lang", "exists", 1), r"is true \(the field is there\) or false"),
        (leaf("lang", "in", "en"), "filters: lang in: takes a list of at most 1000 values"),
        (leaf("lang", "in", ["en"] * 1001), "lang in: takes a list of at most 1000 values"),
        (leaf("lang", "in", ["en", 5]), r"filters: lang in value\[1\]: expected text, got 5"),
        (leaf("lang", "in", [["en"]]), r"lang in value\[0\]: expected text"),
        (
            leaf("created_at", "contains", "2026"),
            "filters: created_at contains: this is a time; compare it with",
        ),
        (leaf("tags", "gt", "a"), "tags and booleans have no order; use eq, ne, in or contains"),
        (leaf("metadata.paid", "lt", True), "tags and booleans have no order"),
        (leaf("metadata.n", "eq", float("nan")), "filters: metadata.n eq: the number is not finite"),
        (leaf("metadata.n", "eq", float("inf")), "the number is not finite"),
        (leaf("metadata.n", "eq", None), "expected text, got null"),
        (leaf("metadata.n", "contains", 5), "expected text, got 5"),
        (leaf("doc_type", "eq", 5), "filters: doc_type eq: expected text, got 5"),
        (leaf("tags", "eq", 5), "filters: tags eq: expected text, got 5"),
        (leaf("doc_type", "eq", True), "expected text, got true"),
        (leaf("doc_type", "eq", {"a": 1}), "expected text, got"),
        (leaf("doc_type", "eq", "x" * 1001), "text must be at most 1000 characters, without NUL or lone surrogates"),
        (leaf("doc_type", "eq", "a\0b"), "without NUL or lone surrogates"),
        (leaf("doc_type", "eq", "\ud800"), "without NUL or lone surrogates"),
        (
            leaf("created_at", "gt", "yesterday"),
            "filters: created_at gt: 'yesterday' is no ISO date",
        ),
        (leaf("created_at", "gt", 1767225600), "expected text, got 1767225600"),
        (nested(MAX_DEPTH + 1), f"filters are nested deeper than {MAX_DEPTH}"),
        ({"any": [GUIDE] * (MAX_LEAVES + 1)}, f"filters have more than {MAX_LEAVES} conditions"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_place_and_the_reason(raw: object, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        parse_filter(raw)


def test_the_greatest_depth_and_number_of_conditions_are_allowed() -> None:
    assert parse_filter(nested(MAX_DEPTH)) is not None
    assert parse_filter({"any": [GUIDE] * MAX_LEAVES}) is not None


def test_conditions_are_counted_over_all_branches() -> None:
    halves = {"all": [{"any": [GUIDE] * (MAX_LEAVES // 2)}, {"any": [GUIDE] * (MAX_LEAVES // 2 + 1)}]}

    with pytest.raises(InvalidInput, match="more than 256 conditions"):
        parse_filter(halves)


def test_a_faulty_date_is_quoted_only_in_part() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_moment("9" * 500, "as_of")

    assert len(caught.value.detail) < 100


@pytest.mark.parametrize("raw", [{"x" * 100_000: 1}, leaf("x" * 100_000, "eq", "a"), leaf("lang", "x" * 100_000, "a")])
def test_a_refusal_quotes_a_long_name_only_in_part(raw: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_filter(raw)

    assert len(caught.value.detail) < 2000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, moment: datetime) -> None:
    assert parse_moment(text, "as_of") == moment
