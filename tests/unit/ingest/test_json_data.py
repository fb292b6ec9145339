from __future__ import annotations

import pytest

from ingest.blocks import Parsed
from ingest.parsers.json_data import parse_json, parse_jsonl, parse_yaml
from rag.errors import InvalidInput


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.of(block)) for block in parsed.blocks]


def test_an_object_is_a_row_for_each_value_under_its_path() -> None:
    source = b'{"title": "Limits", "api": {"rate": 1.50, "burst": null, "open": true}, "days": ["Mon", "Tue"]}'

    parsed = parse_json(source)

    assert blocks(parsed) == [("table", "title: Limits\napi.rate: 1.50\napi.open: true\ndays: Mon, Tue")]
    assert parsed.facets.title == "Limits"


def test_an_array_of_objects_is_a_table_named_by_its_path() -> None:
    source = b'{"v": 2, "users": [{"id": 1, "name": {"first": "Ada"}}, {"id": 2, "roles": [{"of": "x"}]}], "end": "z"}'

    parsed = parse_json(source)

    assert blocks(parsed) == [
        ("table", "v: 2"),
        ("paragraph", "users"),
        ("table", "id: 1; name.first: Ada\nid: 2; roles[0].of: x"),
        ("table", "end: z"),
    ]
    assert parsed.blocks[2].caption == "users"


@pytest.mark.parametrize("source", [b'{"a": 1}\n\n{"a": 2}\n', '{"a": 1}\r\n{"a": 2}'.encode("utf-16")])
def test_json_lines_are_a_row_each(source: bytes) -> None:
    assert parse_jsonl(source).text == "a: 1\na: 2"
    assert parse_json(source).text == "a: 1\na: 2"


def test_yaml_values_stay_as_written() -> None:
    assert parse_yaml(b"version: 3.10\non: yes\nday: 2025-01-01\n").text == "version: 3.10\non: yes\nday: 2025-01-01"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (b'{"a": ', "not valid JSON"),
        (b"[" * 100_000, "nested"),
        (b"[" * 90 + b"1" + b"]" * 90, "nested"),
    ],
)
def test_what_cannot_be_read_is_refused(source: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_json(source)


def test_a_broken_line_is_named() -> None:
    with pytest.raises(InvalidInput, match="Line 2"):
        parse_jsonl(b'{"a": 1}\n{"a"\n')


@pytest.mark.parametrize("source", [b"a: [", b"a: &x [*x]", b"[" * 50_000, b"? {a: 1}\n: b", b"a: *none"])
def test_yaml_that_is_broken_circular_or_too_deep_is_refused(source: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_yaml(source)


def test_yaml_aliases_that_multiply_are_refused() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 12)}]" for n in range(1, 10)]

    with pytest.raises(InvalidInput, match="too much text"):
        parse_yaml("\n".join([f"a0: &a0 [{'x' * 5000}]", *levels]).encode())
