from __future__ import annotations

from importlib import import_module

import pytest

from ingest.parsers import BYTES_PARSERS, TEXT_PARSERS, parse
from ingest.parsers.code import LANGUAGE_BY_CONTENT_TYPE, LANGUAGE_BY_SUFFIX
from rag.formats import CONTENT_TYPES, SUFFIXES


def test_every_format_that_is_promised_has_a_parser_and_no_parser_is_left_over() -> None:
    promised = {*CONTENT_TYPES.values(), *SUFFIXES.values()}

    assert promised == {*BYTES_PARSERS, *TEXT_PARSERS, "code"}
    assert all(hasattr(import_module(f"ingest.parsers.{m}"), function) for m, function in BYTES_PARSERS.values())


def test_every_code_file_and_type_has_a_language() -> None:
    assert {suffix for suffix, kind in SUFFIXES.items() if kind == "code"} == set(LANGUAGE_BY_SUFFIX)
    assert {kind for kind, format_ in CONTENT_TYPES.items() if format_ == "code"} == set(LANGUAGE_BY_CONTENT_TYPE)


@pytest.mark.parametrize(("name", "content_type"), [("a.py", None), ("upload", "text/x-python")])
def test_code_is_read_by_suffix_or_type(name: str, content_type: str | None) -> None:
    parsed = parse(b"def pay():\n    return 1\n", name=name, content_type=content_type)

    assert "def pay():\n    return 1" in parsed.text
    assert "pay" in [parsed.of(block) for block in parsed.blocks if block.kind == "heading"]


def test_clauses_of_a_policy_stand_in_headings_and_those_of_code_do_not() -> None:
    policy = b"# Leave\n\n4.1 Leave is paid.\n\n4.2 Leave ends.\n"

    headings = [parse(policy, name=name) for name in ("a.md", "a.txt")]

    assert all([p.of(b) for b in p.blocks if b.kind == "heading" and b.level >= 7] for p in headings)


def test_what_no_database_takes_is_replaced_and_every_span_holds() -> None:
    notebook = r'{"cells": [{"cell_type": "code", "source": "x = 1 \ud800 y", "outputs": []}], "metadata": {}}'

    parsed = parse(notebook.encode(), name="a.ipynb")

    assert "x = 1 \ufffd y" in parsed.text
    assert all(parsed.of(block) for block in parsed.blocks)
