"""What `rag search` and `rag ask` tell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.directories import write
from tests.integration.commands import Run

NONE = "no chunk that you may see"
MARKS = "to the letter; ask without the quotation marks"


def test_a_long_text_is_cut_at_a_word_with_an_ellipsis(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "Licences cost dollars. " * 30})
    run("ingest", tmp_path)

    told = run("search", "licences")

    assert told.stdout.splitlines()[1] == "   " + ("Licences cost dollars. " * 13).rstrip() + "…"


def test_phrases_that_no_chunk_has_are_named_as_the_reason(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "A licence costs 1,000,000 dollars.", "refunds.md": "Refunds take five days."})
    run("ingest", tmp_path)

    quoted = run("search", 'costs "1000000"')
    asked = run("ask", '"1000000" "dollars"')
    apart = run("search", '"five days" "dollars"')
    plain = run("search", "costs 1000000")

    assert quoted.stdout.splitlines()[0] == f'{NONE} has the phrase "1000000", {MARKS}'
    assert asked.stdout.splitlines()[0] == f'{NONE} has the phrase "1000000", {MARKS}'
    assert apart.stdout.splitlines()[0] == f'{NONE} has the phrases "five days" and "dollars" together, {MARKS}'
    assert plain.stdout.startswith("1. fees.md")


def test_why_a_filter_lets_nothing_pass_is_told(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "---\nyear: 2026\n---\nA licence costs dollars."})
    run("ingest", tmp_path)
    of_year = '{"field": "metadata.year", "op": "eq", "value": "2026"}'

    searched, asked = run("search", "licence", "--filters", of_year), run("ask", "licence?", "--filters", of_year)

    why = "filters: metadata.year is a number in the documents, and is compared with text"
    assert searched.stdout.splitlines()[0] == why
    assert asked.stdout.splitlines()[0] == why


def test_each_hit_has_its_score(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "A licence costs dollars.", "refunds.md": "Refunds take five days."})
    run("ingest", tmp_path)

    told = run("search", "licence").stdout.splitlines()
    found = json.loads(run("search", "licence", "--json").stdout)["hits"]

    assert [line.partition("  score ")[2] for line in told[:4:2]] == [f"{hit['score']:.3f}" for hit in found]


def test_why_hits_were_not_reranked_is_told_and_nothing_of_it_without_hits(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"fees.md": "A licence costs dollars."})
    empty = run("search", "licence")
    run("ingest", tmp_path)

    full, asked, late = (
        run("search", "licence"),
        run("search", "licence", "--no-rerank"),
        run("search", "licence", RAG_RERANK_DEADLINE_S="0.0001"),
    )

    said, timings = empty.stdout.splitlines()
    assert said == "there is no document that you may see"
    assert "skipped" not in timings
    endings = [done.stdout.splitlines()[-1].partition(";")[0] for done in (full, asked, late)]
    assert endings == [
        "rerank full",
        "rerank skipped: as --no-rerank says",
        "rerank skipped: its time was over (RAG_RERANK_DEADLINE_S)",
    ]


def test_only_the_option_that_is_wrong_is_named(run: Run) -> None:
    none, listed = run("search", "licence", "--top-k", "0"), run("search", "licence", "--filters", "[]")

    assert none.stderr == "rag: --top-k takes 1 to 100, not 0\n"
    assert listed.stderr == "rag: --filters takes a JSON object\n"
