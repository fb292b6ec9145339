from __future__ import annotations

import json
import shutil
from pathlib import Path

import psycopg
import pytest

from ingest.__main__ import main as ingest
from rag.inference.onnx import OnnxEmbedder
from rag.store.engine import Database
from rag.values import TenantId, tenant_id
from tests.directories import UNREADABLE_FILE, make_unlistable, write
from tests.integration.commands import NAME, Run, rows, stored, summary
from tests.integration.uploads import upload, worker_of

REFUNDS, PARCELS, BOATS = "A refund takes five days.", "Parcels go by train.", "Boats leave at dawn."


def test_the_folder_follows_the_directory_and_a_list_that_cannot_be_trusted_changes_nothing(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS})
    first, after_first = run("ingest", tmp_path, "--sync"), stored(owner)
    write(tmp_path, {"a.md": REFUNDS, "c.md": PARCELS})
    second, after_second = run("ingest", tmp_path, "--sync"), stored(owner)
    write(tmp_path, {})
    empty, after_empty = run("ingest", tmp_path, "--sync"), stored(owner)
    write(tmp_path, {"a.md": REFUNDS})
    make_unlistable(tmp_path)
    failing, after_failing = run("ingest", tmp_path, "--sync"), stored(owner)
    shutil.rmtree(tmp_path / ("d" * 200))

    assert (after_first, after_second) == (["a.md", "b.md"], ["a.md", "c.md"])
    assert after_empty == after_failing == ["a.md", "c.md"]
    assert (summary(first), summary(second)) == ([2, 2, 0, 0, 0, 0], [2, 1, 1, 0, 0, 1])
    assert [done.returncode for done in (first, second, empty, failing)] == [0, 0, 1, 1]
    assert empty.stderr.startswith(f"rag: no readable file in {tmp_path}")
    assert "cannot be listed" in failing.stderr
    assert empty.stdout == failing.stdout == ""


def test_what_a_plain_ingest_brought_is_deleted_by_a_sync_once_its_file_is_gone(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "deep/c.md": BOATS})
    run("ingest", tmp_path)
    write(tmp_path, {"a.md": PARCELS, "b.md": PARCELS})

    done = run("ingest", tmp_path, "--sync", "--json")

    told = json.loads(done.stdout)
    assert told.pop("seconds") > 0
    assert told == {
        "files": 2, "done": 1, "failed": 0, "unchanged": 1, "chunks": 1, "deleted": 1, "renamed": 0, "failures": [],
    }  # fmt: skip
    assert stored(owner) == ["a.md", "b.md"]


def test_a_deleted_text_is_not_found_any_more(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS})
    run("ingest", tmp_path, "--sync")
    before = json.loads(run("search", PARCELS, "--no-rerank", "--json").stdout)
    write(tmp_path, {"a.md": REFUNDS})
    run("ingest", tmp_path, "--sync")

    after = json.loads(run("search", PARCELS, "--no-rerank", "--json").stdout)

    assert [hit["external_id"] for hit in before["hits"]] == ["b.md", "a.md"]
    assert [hit["external_id"] for hit in after["hits"]] == ["a.md"]


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "c.md": BOATS, "d.md": "It stays."})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"a.md": "A refund takes nine days.", "b2.md": PARCELS, "d.md": "It stays.", "e.md": "It is new."})
    before = rows(owner)
    no_models = tmp_path / "none"

    told = run("ingest", tmp_path, "--sync", "--dry-run", models=no_models)
    as_json = run("ingest", tmp_path, "--sync", "--dry-run", "--json", models=no_models)

    assert told.stdout.splitlines() == [
        "new e.md",
        "changed a.md",
        "renamed b.md -> b2.md",
        "deleted c.md",
        "1 new, 1 changed, 1 renamed, 1 deleted, 1 unchanged; that is what would be done, nothing was changed",
    ]
    assert json.loads(as_json.stdout) == {
        "new": ["e.md"], "changed": ["a.md"], "renamed": [["b.md", "b2.md"]], "deleted": ["c.md"], "unchanged": 1,
    }  # fmt: skip
    assert (told.returncode, as_json.returncode) == (0, 0)
    assert rows(owner) == before


async def test_documents_that_came_over_http_are_left_alone(
    run: Run, owner: psycopg.Connection, tmp_path: Path, database: Database, embedder: OnnxEmbedder
) -> None:
    tenant = TenantId(tenant_id(NAME))
    for name in ("faq.md", "notes.md"):
        await upload(database, tenant, BOATS.encode(), name)
    await worker_of(database, embedder).run_one()
    waiting = await upload(database, tenant, PARCELS.encode(), "later.md")
    owner.execute("UPDATE job_queue SET run_at = now() + interval '1 day' WHERE job_id = %s", (waiting,))
    write(tmp_path, {"a.md": REFUNDS, "faq.md": REFUNDS, "later.md": REFUNDS, "b.md": PARCELS})

    first = run("ingest", tmp_path, "--sync")
    write(tmp_path, {"a.md": REFUNDS})
    second = run("ingest", tmp_path, "--sync")

    assert (first.returncode, second.returncode) == (1, 0)
    assert (summary(first), summary(second)) == ([4, 2, 0, 2, 0, 0], [1, 0, 1, 0, 1, 0])
    assert "failed: faq.md: a document of this id came over HTTP; " in first.stderr
    assert "failed: later.md: a document of this id came over HTTP; " in first.stderr
    assert (stored(owner), stored(owner, None)) == (["a.md"], ["faq.md", "notes.md"])
    assert owner.execute("SELECT state FROM jobs WHERE job_id = %s", (waiting,)).fetchone() == ("queued",)


def test_two_folders_of_a_tenant_do_not_touch_each_other(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    write(tmp_path / "one", {"a.md": REFUNDS, "b.md": PARCELS})
    write(tmp_path / "two", {"x.md": BOATS, "y.md": "It stays."})
    run("ingest", tmp_path / "one", "--sync", "--folder", "one")
    run("ingest", tmp_path / "two", "--sync", "--folder", "two")
    write(tmp_path / "one", {"a.md": REFUNDS})
    write(tmp_path / "two", {"x.md": BOATS, "y.md": "It stays.", "a.md": BOATS})

    one = run("ingest", tmp_path / "one", "--sync", "--folder", "one")
    two = run("ingest", tmp_path / "two", "--sync", "--folder", "two")

    assert (summary(one), summary(two)) == ([1, 0, 1, 0, 1, 0], [3, 0, 2, 1, 0, 0])
    assert "failed: a.md: a document of this id is in folder 'one'; " in two.stderr
    assert (stored(owner, "one"), stored(owner, "two"), stored(owner)) == (["a.md"], ["x.md", "y.md"], [])


def test_documents_that_another_folder_took_over_are_counted_and_named_as_the_reason(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "c.md": BOATS})
    run("ingest", tmp_path, "--sync")
    (tmp_path / "c.md").unlink()

    moved, again = (run("ingest", tmp_path, "--folder", "other") for _ in range(2))
    refused = run("ingest", tmp_path, "--sync")
    back = run("ingest", tmp_path)

    assert (moved.stderr, again.stderr) == ("2 documents moved out of folder 'default' into folder 'other'\n", "")
    assert refused.returncode == 1
    assert refused.stderr == (
        "rag: folder 'default' has 1 document and the directory none of them: 2 documents of the directory now belong"
        " to folder 'other'; nothing was changed. `rag ingest` without --sync takes them back, --folder names the"
        " folder that is to be equal to the directory\n"
    )
    assert back.stderr == "2 documents moved out of folder 'other' into folder 'default'\n"
    assert stored(owner) == ["a.md", "b.md", "c.md"]


def test_another_directory_deletes_everything_only_when_told_to(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path / "docs", {"a.md": REFUNDS, "b.md": PARCELS})
    write(tmp_path / "other", {"x.md": BOATS})
    run("ingest", tmp_path / "docs", "--sync")

    refused, after_refusal = run("ingest", tmp_path / "other", "--sync"), stored(owner)
    told, after_other = run("ingest", tmp_path / "other", "--sync", "--delete-all"), stored(owner)
    write(tmp_path / "other", {})
    emptied = run("ingest", tmp_path / "other", "--sync", "--delete-all")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("rag: folder 'default' has 2 documents and the directory none of them")
    assert (after_refusal, after_other) == (["a.md", "b.md"], ["x.md"])
    assert (summary(told), summary(emptied)) == ([1, 1, 0, 0, 2, 0], [0, 0, 0, 0, 1, 0])
    assert rows(owner)[:3] == [(0,), (0,), (0,)]


def test_a_directory_moved_as_a_whole_is_renamed_and_not_refused(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"deep/a.md": REFUNDS, "deep/b.md": PARCELS})

    done = run("ingest", tmp_path, "--sync")

    assert summary(done) == [2, 2, 0, 0, 0, 2]
    assert stored(owner) == ["deep/a.md", "deep/b.md"]


def test_a_file_that_cannot_be_read_keeps_its_document_and_every_other(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "c.md": BOATS})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"b.md": PARCELS, "c2.md": BOATS})
    (tmp_path / "a.md").symlink_to(UNREADABLE_FILE)

    dry = run("ingest", tmp_path, "--sync", "--dry-run")
    done = run("ingest", tmp_path, "--sync")

    assert (dry.returncode, done.returncode) == (1, 1)
    assert dry.stdout.splitlines()[0] == "new c2.md"
    assert summary(done) == [3, 1, 1, 1, 0, 0]
    assert dry.stderr == done.stderr
    assert done.stderr.startswith("failed: a.md: ")
    assert done.stderr.endswith("nothing is deleted, since a file could not be read; the same command again goes on\n")
    assert stored(owner) == ["a.md", "b.md", "c.md", "c2.md"]


def test_a_file_that_cannot_be_parsed_keeps_its_old_version_and_others_are_deleted(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "c.md": BOATS})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"c.md": BOATS})
    (tmp_path / "a.md").write_bytes(b"a\0b")

    done = run("ingest", tmp_path, "--sync")

    assert (done.returncode, summary(done)) == (1, [2, 0, 1, 1, 1, 0])
    assert stored(owner) == ["a.md", "c.md"]
    assert owner.execute("SELECT text FROM documents WHERE external_id = 'a.md'").fetchall() == [(REFUNDS,)]


def test_a_renamed_file_that_cannot_be_ingested_under_its_new_name_stays_under_the_old_one(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"a.md": REFUNDS, "b.pdf": PARCELS})

    done = run("ingest", tmp_path, "--sync")

    assert (done.returncode, summary(done)) == (1, [2, 0, 1, 1, 0, 0])
    assert stored(owner) == ["a.md", "b.md"]


def test_a_file_of_a_kind_that_is_not_read_any_more_keeps_its_document(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS, "c.md": BOATS})
    run("ingest", tmp_path, "--sync")
    owner.execute("UPDATE documents SET external_id = 'b.wri' WHERE external_id = 'b.md'")
    write(tmp_path, {"a.md": REFUNDS, "b.wri": PARCELS})

    done = run("ingest", tmp_path, "--sync")

    assert summary(done) == [1, 0, 1, 0, 1, 0]
    assert done.stderr == "not read: 1 .wri\n"
    assert stored(owner) == ["a.md", "b.wri"]


def test_a_deletion_takes_the_versions_before_too(run: Run, owner: psycopg.Connection, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": REFUNDS, "b.md": PARCELS})
    run("ingest", tmp_path, "--sync")
    [(before,)] = owner.execute(
        "INSERT INTO documents (tenant_id, document_id, external_id, title, lang, tags, metadata, acl, fingerprint,"
        "                       chunk_count, text, version, superseded)"
        " SELECT tenant_id, gen_random_uuid(), external_id, title, lang, tags, metadata, acl, fingerprint, chunk_count,"
        "        text, 0, true FROM documents WHERE external_id = 'b.md' RETURNING document_id"
    )
    owner.execute(
        "UPDATE chunks SET document_id = %s FROM documents d"
        " WHERE d.document_id = chunks.document_id AND external_id = 'b.md'",
        (before,),
    )
    write(tmp_path, {"a.md": REFUNDS})

    done = run("ingest", tmp_path, "--sync")

    assert summary(done) == [1, 0, 1, 0, 1, 0]
    assert rows(owner)[:3] == [(1,), (1,), (1,)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["docs", "more", "--sync"], "--sync takes one directory"),
        (["rows.jsonl", "--sync", "--jsonl"], "it goes with neither --jsonl nor --no-wait"),
        (["docs", "--sync", "--no-wait"], "it goes with neither --jsonl nor --no-wait"),
        (["docs", "--dry-run"], "--dry-run and --delete-all go with --sync"),
        (["docs", "--delete-all"], "--dry-run and --delete-all go with --sync"),
        (["docs", "--folder", " "], "--folder takes 1 to 100 printable characters"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ingest([*arguments, "--tenant", NAME])

    assert ended.value.code == 2
    assert reason in capsys.readouterr().err
