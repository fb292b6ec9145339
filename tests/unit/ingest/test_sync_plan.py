from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sync import Plan, plan

ONE, TWO, THREE = b"one", b"two", b"three"

CASES = {
    "nothing anywhere": ({}, {}, set(), Plan()),
    "the first time all is new": ({"b": TWO, "a": ONE}, {}, set(), Plan(new=("a", "b"))),
    "the same again": ({"a": ONE, "b": TWO}, {"a": ONE, "b": TWO}, set(), Plan(unchanged=("a", "b"))),
    "one changed": ({"a": TWO, "b": TWO}, {"a": ONE, "b": TWO}, set(), Plan(changed=("a",), unchanged=("b",))),
    "one gone": ({"a": ONE}, {"a": ONE, "b": TWO}, set(), Plan(unchanged=("a",), deleted=("b",))),
    "one renamed": ({"a": ONE, "c": TWO}, {"a": ONE, "b": TWO}, set(), Plan(unchanged=("a",), renamed=(("b", "c"),))),
    "renamed and rewritten": ({"a": THREE}, {"b": TWO}, set(), Plan(new=("a",), deleted=("b",))),
    "a copy is new": ({"a": ONE, "b": ONE}, {"a": ONE}, set(), Plan(new=("b",), unchanged=("a",))),
    "two of one content renamed": (
        {"x/a": ONE, "x/b": ONE, "x/c": ONE},
        {"a": ONE, "b": ONE},
        set(),
        Plan(renamed=(("a", "x/a"), ("b", "x/b")), new=("x/c",)),
    ),
    "two of one content become one": (
        {"c": ONE},
        {"a": ONE, "b": ONE},
        set(),
        Plan(renamed=(("a", "c"),), deleted=("b",)),
    ),
    "names swapped": ({"a": TWO, "b": ONE}, {"a": ONE, "b": TWO}, set(), Plan(changed=("a", "b"))),
    "one there that cannot be compared": (
        {"a": None, "b": None},
        {"a": ONE},
        set(),
        Plan(kept=("a",)),
    ),
    "an upload under way may change what is the same now": ({"a": ONE}, {"a": ONE}, {"a"}, Plan(changed=("a",))),
    "an upload under way of nothing stored": ({"a": ONE}, {}, {"a"}, Plan(new=("a",))),
    "an upload under way of what is gone": ({"a": ONE}, {"a": ONE}, {"b"}, Plan(unchanged=("a",), deleted=("b",))),
}


@pytest.mark.parametrize(("listed", "stored", "waiting", "expected"), CASES.values(), ids=CASES.keys())
def test_what_becomes_of_each_document(
    listed: Mapping[str, bytes | None], stored: Mapping[str, bytes], waiting: set[str], expected: Plan
) -> None:
    assert plan(listed, stored, waiting) == expected


@pytest.mark.parametrize(
    ("listed", "found_nothing"),
    [
        ({}, True),
        ({"c": THREE}, True),
        ({"a": ONE}, False),
        ({"a": THREE}, False),
        ({"c": ONE}, False),
        ({"a": None}, False),
    ],
    ids=["empty", "another directory", "one the same", "one rewritten", "one renamed", "one that cannot be read"],
)
def test_a_directory_with_nothing_of_the_folder_is_told_apart(
    listed: Mapping[str, bytes | None], found_nothing: bool
) -> None:
    assert plan(listed, {"a": ONE, "b": TWO}).finds_nothing is found_nothing


def test_an_empty_folder_takes_any_directory() -> None:
    assert not plan({"a": ONE}, {}).finds_nothing
    assert not plan({}, {}).finds_nothing


NAMES = st.sampled_from("abcdef")
CONTENTS = st.sampled_from([ONE, TWO, THREE])
LISTED = st.dictionaries(NAMES, st.none() | CONTENTS)
STORED = st.dictionaries(NAMES, CONTENTS)


@given(LISTED, STORED, st.sets(NAMES))
def test_carrying_out_the_plan_gives_the_listing(
    listed: dict[str, bytes | None], stored: dict[str, bytes], waiting: set[str]
) -> None:
    planned = plan(listed, stored, waiting)
    readable = {name: content for name, content in listed.items() if content is not None}

    after = dict(stored)
    for name in planned.written():
        after[name] = readable[name]
    for name in [*planned.deleted, *(old for old, _ in planned.renamed)]:
        after.pop(name, None)

    unreadable = {name: content for name, content in stored.items() if name in listed and listed[name] is None}
    assert after == readable | unreadable


@given(LISTED, STORED, st.sets(NAMES))
def test_every_document_is_in_the_plan_once(
    listed: dict[str, bytes | None], stored: dict[str, bytes], waiting: set[str]
) -> None:
    planned = plan(listed, stored, waiting)

    names = [*planned.new, *planned.changed, *planned.deleted, *planned.unchanged, *planned.kept]
    names += [name for pair in planned.renamed for name in pair]
    never_stored = {name for name, content in listed.items() if content is None} - stored.keys() - waiting
    assert sorted(names) == sorted((listed.keys() | stored.keys() | waiting) - never_stored)


@given(LISTED, STORED, st.sets(NAMES))
def test_a_plan_without_deletions_writes_the_same_and_deletes_nothing(
    listed: dict[str, bytes | None], stored: dict[str, bytes], waiting: set[str]
) -> None:
    planned = plan(listed, stored, waiting)

    careful = planned.without_deletions()

    assert careful.written() == planned.written()
    assert (careful.renamed, careful.deleted) == ((), ())
    assert careful.changed == planned.changed
