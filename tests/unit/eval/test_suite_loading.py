"""Golden questions are checked before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.errors import CannotRun
from eval.suite import load

Golden = Callable[..., Path]
Record = dict[str, Any]


def test_a_sound_suite_loads_in_file_order(golden: Golden, asked: Record) -> None:
    row = {"document": "guides/install.md", "passage": "E-1 | No disk"}
    other = asked | {"id": "acme-000", "type": "table", "gold": [row], "as_of": "2024-05-01", "groups": ["hr"]}

    suite = load(golden(asked, other))

    assert [question.id for question in suite.questions] == ["acme-001", "acme-000"]
    assert suite.questions[1].groups == ("hr",)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"typo": 1}, "typo: Extra inputs are not permitted"),
        ({"type": "riddle"}, "type: Input should be"),
        ({"as_of": "yesterday"}, "as_of: Value error"),
        ({"question": " "}, "question: String should match"),
        ({"gold": []}, "no gold; only an unanswerable question has none"),
        ({"type": "unanswerable"}, "unanswerable, yet it has gold"),
        ({"tenant": "nobody"}, "the corpus has no documents of tenant nobody"),
        ({"gold": [{"document": "no.md", "passage": "x"}]}, "no document no.md"),
        ({"gold": [{"document": "guides/install.md", "passage": "run it"}]}, "does not contain 'run it'"),
    ],
)
def test_a_fault_is_named(golden: Golden, asked: Record, change: Record, fault: str) -> None:
    path = golden(asked | change)

    with pytest.raises(CannotRun) as raised:
        load(path)

    assert fault in str(raised.value)
    assert str(raised.value).splitlines()[1].startswith("  acme-001: ")


def test_the_same_gold_twice_is_a_fault_however_it_is_written(golden: Golden, asked: Record) -> None:
    again = {"document": "guides/install.md", "passage": "run `make  demo` FIRST"}
    path = golden(asked | {"gold": [*asked["gold"], again]})

    with pytest.raises(CannotRun, match="acme-001: the same gold passage is named twice"):
        load(path)


def test_every_fault_is_listed_at_once(golden: Golden, asked: Record) -> None:
    path = golden(asked, asked, asked | {"id": "acme-002", "gold": []}, asked | {"id": "acme-003", "type": "riddle"})

    with pytest.raises(CannotRun) as raised:
        load(path)

    faults = str(raised.value).splitlines()[1:]
    assert [fault.split(":")[0].strip() for fault in faults] == ["acme-003", "acme-001", "acme-002"]


def test_no_questions_no_file_and_no_json_are_faults(golden: Golden, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")

    for path in (golden(), tmp_path / "missing.json", broken):
        with pytest.raises(CannotRun, match=path.name):
            load(path)


def test_the_hash_changes_with_a_question_and_with_a_document(golden: Golden, asked: Record) -> None:
    path = golden(asked)
    first = load(path).sha256

    same = load(path).sha256
    (path.parent / "corpus" / "acme" / "more.md").write_text("more")
    with_document = load(path).sha256
    path.write_text(json.dumps({"corpus": "corpus", "questions": [asked | {"question": "How?"}]}))
    with_question = load(path).sha256

    assert first == same
    assert len({first, with_document, with_question}) == 3
