from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ingest.blocks import Parsed
from rag.errors import InvalidInput

Read = Callable[[str], Parsed]


def test_known_keys_become_facets(markdown: Read) -> None:
    facets = markdown(
        "---\ntitle: Leave policy\ndoc_type: policy\nsource: hr\nlang: de\ntags: leave, eu\nacl: [hr, board]\n"
        "valid_from: 2025-01-31\nvalid_to: 2026-01-31T10:00:00+02:00\n---\n# Other\n\nBody.\n"
    ).facets

    assert (facets.title, facets.doc_type, facets.source, facets.lang) == ("Leave policy", "policy", "hr", "de")
    assert facets.tags == ("leave", "eu")
    assert facets.acl == ("hr", "board")
    assert facets.valid_from == datetime(2025, 1, 31, tzinfo=UTC)
    assert facets.valid_to == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert facets.metadata == {}


def test_other_keys_become_metadata_with_dots_and_joined_lists(markdown: Read) -> None:
    parsed = markdown(
        "---\nversion: 3\ndraft: false\nreviewed: 2025-03-01\nauthors: [Ann, 7]\nteam:\n  name: core\n"
        "empty:\nrows:\n- a: 1\n---\nBody.\n"
    )

    assert parsed.facets.metadata == {
        "version": 3,
        "draft": False,
        "reviewed": "2025-03-01",
        "authors": "Ann, 7",
        "team.name": "core",
    }
    assert parsed.warnings == ("front matter: rows is left out; write a single value or a plain list",)


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("## Minor\n\n# Major\n\nx", "Major"),
        ("## Minor\n\n### Smaller\n\nx", "Minor"),
        ("No heading.", ""),
    ],
)
def test_the_title_falls_back_to_the_first_top_heading(markdown: Read, source: str, title: str) -> None:
    assert markdown(source).facets.title == title


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("title: 2024", "title must be text; write it in quotes"),
        ("lang: no", "lang must be text; write it in quotes"),
        ("acl: finance", "acl must be a list of groups"),
        ("acl:", "acl must be a list of groups"),
        ("ACL: [1]", "acl must be a list of groups"),
        ("tags: {a: 1}", "tags must be a list"),
        ("valid_from: soon", "valid_from must be a date such as 2025-01-31"),
        ("valid_to: 7", "valid_to must be a date such as 2025-01-31"),
        ("valid_to: 2025-02-30", "not valid YAML"),
        ("a: [1", "not valid YAML"),
        ("a: !!bool maybe", "not valid YAML"),
        ("a: " + "- " * 2000, "not valid YAML"),
        ("a:\n" + "- " * 2000, "not valid YAML"),
        ("a: " + "[" * 100_000, "too many brackets"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("a: &x 1\nb: *x", "YAML alias"),
        ('source: "\\0"', "source has an escaped character"),
        ('note: "\\uD800"', "note has an escaped character"),
    ],
)
def test_what_cannot_be_read_is_refused_by_key(markdown: Read, line: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        markdown(f"---\n{line}\n---\nBody.\n")

    assert says in refused.value.detail


@pytest.mark.parametrize("source", ["---\nJust text\n---\n\nBody.", "Body.\n\n---\ntitle: x\n---\n", "---\nOpen end"])
def test_rules_that_fence_no_mapping_are_no_front_matter(markdown: Read, source: str) -> None:
    parsed = markdown(source)

    assert parsed.facets.metadata == {}
    assert {"Just text", "title: x", "Open end"} & set(parsed.text.split("\n"))
