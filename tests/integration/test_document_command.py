"""`rag document`: list, show and delete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from rag.store.engine import Database
from rag.store.jobs import Outcome, Upload, end_job, enqueue
from rag.values import Facets, tenant_id
from tests.conftest import MakeTenant
from tests.integration.commands import NAME, Run, rows
from tests.integration.corpus import prepared, store

TENANT = tenant_id(NAME)


@pytest.fixture
async def command(run: Run, database: Database) -> Run:
    """Runs `rag` for a tenant with four documents, one of them closed and one with history."""
    documents = [
        prepared("guides/a.md", "One.", "Two.", facets=Facets(title="A guide", tags=("new",))),
        prepared("guides/b.md", "Three."),
        replace(prepared("news.md", "Four."), folder="wiki"),
        prepared("pay.md", "Five.", facets=Facets(acl=("hr",))),
    ]
    await store(database, TENANT, documents)
    await store(database, TENANT, [replace(prepared("guides/b.md", "Six."), keep_history=True)])
    return run


async def upload(database: Database, name: str, outcome: Outcome | None = None) -> None:
    async with database.tenant(TENANT) as tx:
        job, _ = await enqueue(tx, Upload(name, "text/markdown", {}, b"# A"))
        if outcome is not None:
            await end_job(tx, job, outcome)


def listed(command: Run, *options: str) -> Sequence[str]:
    """The external ids in the JSON of `rag document list`."""
    lines = command("document", "list", "--json", *options).stdout.splitlines()
    return [json.loads(line)["external_id"] for line in lines]


def test_documents_are_listed_by_external_id_closed_ones_too(command: Run) -> None:
    told = command("document", "list")

    head, *rows = told.stdout.splitlines()
    assert head.split() == ["document", "chunks", "updated,", "UTC", "folder", "title"]
    assert [row.split()[:2] for row in rows] == [
        ["guides/a.md", "2"], ["guides/b.md", "1"], ["news.md", "1"], ["pay.md", "1"],
    ]  # fmt: skip
    assert rows[0].endswith("A guide")
    assert rows[2].endswith("wiki")


def test_a_list_may_be_of_a_prefix_or_a_folder_and_goes_on_where_it_ended(command: Run) -> None:
    first = command("document", "list", "--limit", "2")

    assert first.stdout.splitlines()[-1] == "there are more: --after=guides/b.md"
    assert listed(command, "--after", "guides/b.md", "--limit", "2") == ["news.md", "pay.md"]
    assert listed(command, "--prefix", "guides/") == ["guides/a.md", "guides/b.md"]
    assert listed(command, "--prefix", "guides_") == []
    assert listed(command, "--folder", "wiki") == ["news.md"]


def test_a_list_without_a_document_says_so(run: Run) -> None:
    nothing, *such, none = (
        run("document", "list", *options) for options in ((), ("--prefix", "x"), ("--folder", ""), ("--limit", "0"))
    )

    assert nothing.stdout == f"tenant {NAME} has no document\n"
    assert [one.stdout for one in such] == [f"tenant {NAME} has no such document\n"] * 2
    assert (none.returncode, none.stderr) == (1, "rag: --limit takes 1 to 10000\n")


def test_a_document_is_shown_with_its_facts_and_its_text(command: Run) -> None:
    told = command("document", "show", "guides/a.md").stdout
    before = json.loads(command("document", "show", "guides/b.md", "--version", "1", "--json").stdout)

    facts, _, text = told.partition("\n\n")
    shown = dict(line.split(maxsplit=1) for line in facts.splitlines())
    assert text == "One.\nTwo.\n"
    assert {name: shown[name] for name in ("external_id", "title", "status", "chunks", "tags")} == {
        "external_id": "guides/a.md", "title": "A guide", "status": "ready", "chunks": "2", "tags": '["new"]',
    }  # fmt: skip
    assert "doc_type" not in shown
    assert (before["text"], before["version"], before["superseded"]) == ("Three.", 1, True)


async def test_of_a_document_that_is_not_stored_its_upload_is_shown(run: Run, database: Database) -> None:
    await upload(database, "late.md")
    await upload(database, "bad.pdf", Outcome("failed", error_code="unreadable", error_detail="It has a password."))

    late = run("document", "show", "late.md").stdout
    bad = json.loads(run("document", "show", "bad.pdf", "--json").stdout)
    gone = run("document", "show", "late.md", "--version", "1")

    assert ["status", "queued"] in [line.split() for line in late.splitlines()]
    assert (bad["status"], bad["detail"]) == ("failed", "It has a password.")
    assert (gone.returncode, gone.stdout) == (1, "")


async def test_what_is_deleted_is_gone_and_what_went_is_said(
    command: Run, database: Database, owner: psycopg.Connection
) -> None:
    await upload(database, "guides/b.md")
    await upload(database, "late.md")

    both = command("document", "delete", "guides/b.md")
    waiting = command("document", "delete", "late.md")
    closed = command("document", "delete", "pay.md", "--json")

    assert both.stdout == "deleted guides/b.md: 2 versions and 1 upload under way\n"
    assert waiting.stdout == "deleted late.md: 1 upload under way\n"
    assert json.loads(closed.stdout) == {"external_id": "pay.md", "versions": 1, "uploads": 0}
    assert [done.returncode for done in (both, waiting, closed)] == [0, 0, 0]
    assert listed(command) == ["guides/a.md", "news.md"]
    assert rows(owner)[:3] == [(2,), (3,), (3,)]  # documents, chunks, embeddings


def test_what_is_not_there_is_an_error_and_nothing_changes(command: Run, owner: psycopg.Connection) -> None:
    before = rows(owner)

    done = [command("document", verb, name) for verb in ("show", "delete") for name in ("guides/c.md", " ")]

    assert [(one.returncode, one.stdout) for one in done] == [(1, "")] * 4
    assert [one.stderr for one in done[::2]] == ["rag: there is no document 'guides/c.md'\n"] * 2
    assert [one.stderr for one in done[1::2]] == [
        "rag: external_id: 1 to 512 characters, without NUL or lone surrogates\n"
    ] * 2
    assert rows(owner) == before


@pytest.mark.parametrize("version", ["0", "-1", "2", "99999999999"])
def test_a_version_that_cannot_be_is_not_there(command: Run, version: str) -> None:
    done = command("document", "show", "pay.md", f"--version={version}")

    assert (done.returncode, done.stderr) == (1, f"rag: there is no version {version} of document 'pay.md'\n")


async def test_another_tenants_documents_are_not_there(
    run: Run, database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    other = await make_tenant()
    await store(database, other, [prepared("theirs.md", "Secret.")])

    shown, deleted = run("document", "show", "theirs.md"), run("document", "delete", "theirs.md")

    assert listed(run) == []
    assert [(done.returncode, done.stderr) for done in (shown, deleted)] == [
        (1, "rag: there is no document 'theirs.md'\n")
    ] * 2
    assert owner.execute("SELECT count(*) FROM documents WHERE tenant_id = %s", (other,)).fetchall() == [(1,)]
