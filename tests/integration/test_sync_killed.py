from __future__ import annotations

from pathlib import Path

import psycopg

from rag.values import tenant_id
from tests.directories import write
from tests.integration.commands import NAME, Run, Start, stored, summary, wait_until


def test_a_sync_after_one_that_was_killed_while_it_ingested_converges(
    run: Run, start: Start, owner: psycopg.Connection, tmp_path: Path
) -> None:
    texts = {f"{n:03}.md": f"# Part {n}\n\n" + f"Parcel {n} goes by train number {n}. " * 15 for n in range(150)}
    write(tmp_path, texts)
    with start("ingest", tmp_path, "--sync") as process:
        wait_until(lambda: len(stored(owner)) > 0)
        process.kill()
    half = stored(owner)
    gone = {"000.md", "001.md", "100.md", "101.md", "149.md"}  # stored, in the hands of the worker killed, and waiting
    kept = {name: text for name, text in texts.items() if name not in gone}
    write(tmp_path, {**kept, "new-001.md": texts["001.md"], "new-101.md": texts["101.md"]})

    done = run("ingest", tmp_path, "--sync")

    open_jobs = "SELECT count(*) FROM jobs WHERE tenant_id = %s AND state IN ('queued', 'running')"
    assert 0 < len(half) < 150
    assert done.returncode == 0, done.stderr
    assert stored(owner) == sorted([*kept, "new-001.md", "new-101.md"])
    assert owner.execute(open_jobs, (tenant_id(NAME),)).fetchone() == (0,)
    assert summary(run("ingest", tmp_path, "--sync")) == [147, 0, 147, 0, 0, 0]


def test_a_renamed_document_is_there_all_the_time_even_when_the_sync_is_killed(
    run: Run, start: Start, owner: psycopg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, {"a.md": "A refund takes five days.", "b.md": "Parcels go by train."})
    run("ingest", tmp_path, "--sync")
    write(tmp_path, {"a.md": "A refund takes five days.", "c.md": "Parcels go by train."})

    with start("ingest", tmp_path, "--sync") as process, owner.transaction():
        owner.execute("SELECT 1 FROM documents WHERE external_id = 'b.md' FOR UPDATE")  # holds the deletion up
        wait_until(lambda: owner.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (1,))
        process.kill()
        process.wait()
    after_kill = stored(owner)
    done = run("ingest", tmp_path, "--sync")

    assert after_kill == ["a.md", "b.md", "c.md"]
    assert summary(done) == [2, 0, 2, 0, 1, 0]
    assert stored(owner) == ["a.md", "c.md"]
