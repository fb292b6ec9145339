from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from rag.values import tenant_id
from tests.conftest import REPOSITORY, MakeTenant
from tests.directories import make_unlistable

Run = Callable[..., subprocess.CompletedProcess[str]]

NAME = "cli"
SUMMARY = re.compile(
    r"(\d+) documents?: (\d+) ingested, (\d+) unchanged, (\d+) failed; (\d+) chunks in \d+(?:\.\d+)? s\n"
)


@pytest.fixture
async def run(
    make_tenant: MakeTenant, owner: psycopg.Connection, database_url: str, process_environment: dict[str, str]
) -> Run:
    """Runs `rag ingest` as a shell would, for a tenant called NAME."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    await make_tenant(NAME)

    def ingest(*arguments: str | Path, tenant: str = NAME) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rag", "ingest", *map(str, arguments), "--tenant", tenant],
            cwd=REPOSITORY,
            env={**process_environment, "DATABASE_URL": database_url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return ingest


def row(name: str) -> str:
    return json.dumps({"_id": name, "title": name, "text": f"About {name}."}) + "\n"


def stored(owner: psycopg.Connection) -> list[str]:
    query = 'SELECT external_id FROM documents WHERE tenant_id = %s ORDER BY external_id COLLATE "C"'
    return [row[0] for row in owner.execute(query, (tenant_id(NAME),))]


def summary(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Documents, ingested, unchanged, failed, chunks."""
    match = SUMMARY.fullmatch(done.stdout)
    assert match, done.stdout + done.stderr
    return [int(number) for number in match.groups()]


def test_a_folder_is_ingested_and_then_unchanged(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "refunds.md").write_text("# Refunds\n\nA refund takes five days.")
    (tmp_path / "parcels.txt").write_text("Parcels go by train.")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")

    first, again = run(tmp_path), run(tmp_path)

    assert (first.returncode, again.returncode) == (0, 0)
    assert summary(first) == [2, 2, 0, 0, 2]
    assert summary(again) == [2, 0, 2, 0, 0]
    assert stored(owner) == ["deep/refunds.md", "parcels.txt"]
    assert first.stderr == again.stderr == "not read: 1 .png\n"  # no bar, no colours: this is no terminal


def test_a_bad_file_is_named_and_the_others_are_stored(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("A refund takes five days.")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "last.md").write_text("Parcels go by train.")

    done = run(tmp_path)

    assert done.returncode == 1
    assert summary(done) == [3, 2, 0, 1, 2]
    assert stored(owner) == ["good.md", "last.md"]
    [line] = done.stderr.splitlines()
    assert line.startswith("failed: bad.md: ")
    assert line.endswith("(invalid_input)")


def test_the_summary_as_json_lists_the_failures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("A refund takes five days.")
    (tmp_path / "bad.md").write_bytes(b"a\0b")

    done = run(tmp_path, "--json")

    [line] = done.stdout.splitlines()
    told = json.loads(line)
    assert done.returncode == 1
    assert told.pop("seconds") > 0
    assert [failure["path"] for failure in told["failures"]] == ["bad.md"]
    assert told.pop("failures")[0]["code"] == "invalid_input"
    assert told == {"files": 2, "done": 1, "failed": 1, "unchanged": 0, "chunks": 1}


def test_rows_that_cannot_be_used_are_named_and_the_others_are_stored(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    rows = tmp_path / "corpus.jsonl"
    rows.write_text(
        '{"_id": "one", "title": "Refunds", "text": "A refund takes five days.", "metadata": {"n": 1, "x": null}}\n'
        "not json\n"
        '{"_id": 7, "text": "an id that is no text"}\n'
        "\n"
        '{"_id": "untitled", "text": "Parcels go by train."}\n'
        '{"_id": "one", "text": "the same id again"}\n'
        '{"_id": "title only", "title": "Boats", "text": ""}\n'
        "[1, 2]\n"
    )

    done = run(rows, "--jsonl")

    assert done.returncode == 1
    assert summary(done) == [7, 3, 0, 4, 3]
    assert stored(owner) == ["one", "title only", "untitled"]
    assert sorted(line.split(": ")[1] for line in done.stderr.splitlines()) == [
        "corpus.jsonl:2",
        "corpus.jsonl:3",
        "corpus.jsonl:8",
        "one",
    ]
    kept = owner.execute("SELECT title, metadata FROM documents WHERE external_id = 'one'").fetchall()
    assert kept == [("Refunds", {"n": 1})]


def test_rows_that_nothing_can_store_hold_up_no_other(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    rows = tmp_path / "corpus.jsonl"
    unstorable = (
        r'{"_id": "nul\u0000", "text": "a text"}',
        r'{"_id": "half \ud800", "text": "a text"}',
        r'{"_id": "title", "title": "half \ud800", "text": "a text"}',
        r'{"_id": "text", "text": "nul \u0000"}',
        r'{"_id": "metadata", "text": "a text", "metadata": {"key": "\u0000"}}',
        '{"_id": "number", "text": "a text", "metadata": {"key": NaN}}',
        '{"_id": "digits", "text": "a text", "metadata": {"key": ' + "9" * 5000 + "}}",
        '{"_id": "deep", "text": "a text", "metadata": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"_id": "type", "text": "a text", "content_type": 7}',
        json.dumps({"_id": "".join(map(chr, range(0x4E00, 0x5600))), "text": "an id too long for an index"}),
    )
    rows.write_text("\n".join([*unstorable, '{"_id": "good", "text": "A refund takes five days."}']))

    done = run(rows, "--jsonl")

    assert stored(owner) == ["good"], done.stderr[-300:]
    assert done.returncode == 1
    assert summary(done) == [len(unstorable) + 1, 1, 0, len(unstorable), 1]


def test_a_file_whose_name_is_no_text_holds_up_no_other(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff.md")).write_text("A refund takes five days.")
    (tmp_path / "good.md").write_text("Parcels go by train.")

    done = run(tmp_path)

    assert stored(owner) == ["good.md"], done.stderr[-300:]
    assert done.returncode == 1
    assert summary(done) == [2, 1, 0, 1, 1]


def test_a_folder_that_cannot_be_listed_is_named_and_the_others_are_stored(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "good.md").write_text("Parcels go by train.")
    make_unlistable(tmp_path)

    done = run(tmp_path)

    shutil.rmtree(tmp_path / ("d" * 200))
    assert done.returncode == 1
    assert summary(done) == [2, 1, 0, 1, 1]
    assert "cannot be listed" in done.stderr
    assert stored(owner) == ["good.md"]


def test_two_files_of_one_name_are_not_silently_one(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.md").write_text(f"This is of {folder}.")

    done = run(tmp_path / "a", tmp_path / "b")

    assert done.returncode == 1
    assert summary(done) == [2, 1, 0, 1, 1]
    assert "failed: same.md: another document has this id (duplicate_id)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "tenant", "reason"),
    [
        (["/no/such/path"], NAME, "rag: /no/such/path does not exist\n"),
        (["/no/such/rows.jsonl", "--jsonl"], NAME, "rag: /no/such/rows.jsonl cannot be read as JSONL: "),
        (["README.md"], "nobody", "rag: there is no tenant 'nobody'; `rag tenant create nobody` makes it\n"),
    ],
)
def test_what_cannot_be_started_is_one_line_on_standard_error(
    run: Run, arguments: list[str], tenant: str, reason: str
) -> None:
    done = run(*arguments, tenant=tenant)

    assert done.returncode == 1
    assert done.stderr.startswith(reason)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_folder_without_a_readable_file_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")

    done = run(tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert "no readable file" in done.stderr


def test_a_file_of_rows_taken_for_one_document_is_named(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    for name, content in {
        "rows.jsonl": "\n" + row("a") + row("b"),
        "log.jsonl": '{"level": "info"}\n',
        "broken.ndjson": "{",
    }.items():
        (tmp_path / name).write_text(content)

    done = run(tmp_path)
    as_rows = run(tmp_path / "rows.jsonl", "--jsonl")

    assert "taken for one document: rows.jsonl; --jsonl makes one of each row\n" in done.stderr
    assert "taken for" not in as_rows.stderr
    assert {"a", "b", "rows.jsonl"} <= set(stored(owner))


def test_a_document_that_would_never_be_valid_is_refused(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    (tmp_path / "reversed.md").write_text(
        "---\nvalid_from: 2026-02-01\nvalid_to: 2026-01-01\n---\nRefunds take five days.\n"
    )
    (tmp_path / "fine.md").write_text(
        "---\nvalid_from: 2026-01-01\nvalid_to: 2026-02-01\n---\nRefunds take six days.\n"
    )

    done = run(tmp_path)

    assert (done.returncode, stored(owner)) == (1, ["fine.md"])
    assert "reversed.md: valid_to: it must be after valid_from; the document would never be valid" in done.stderr
