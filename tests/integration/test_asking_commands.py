"""What `rag search` and `rag ask` tell."""

from __future__ import annotations

from pathlib import Path

from tests.directories import write
from tests.integration.commands import Run

MARKS = "to the letter; ask without the quotation marks"


def test_a_long_text_is_cut_at_a_word_with_an_ellipsis(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "Licences cost dollars. " * 30})
    run("ingest", tmp_path)

    told = run("search", "licences")

    assert told.stdout.splitlines()[1] == "   " + ("Licences cost dollars. " * 13).rstrip() + "…"


def test_phrases_that_no_chunk_has_are_named_as_the_reason(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "A licence costs 1,000,000 dollars."})
    run("ingest", tmp_path)

    quoted = run("search", 'costs "1000000"')
    asked = run("ask", '"1000000" "dollars"')
    plain = run("search", "costs 1000000")

    assert quoted.stdout.splitlines()[0] == f'no chunk has the phrase "1000000", {MARKS}'
    assert asked.stdout.splitlines()[-1] == f'no chunk has the phrases "1000000" and "dollars", {MARKS}'
    assert plain.stdout.startswith("1. fees.md")
