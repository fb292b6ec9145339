"""Plain text that may be source code: no file name says so, nor in which language it is."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module

from ingest.blocks import Parsed
from ingest.parsers.text import parse_text
from rag.values import Facets

LANGUAGES = ("java", "rust", "cpp", "csharp", "go", "javascript", "typescript", "tsx", "python")  # of equals, the first
MOST_CHARS = 100_000  # grammars take seconds over a megabyte that they do not know
SAMPLE_CHARS = 4000  # the beginning tells which languages to try
TRIED = 3
LEAST_LINES = 2
LEAST_SHARE = 0.1  # of the lines begin or end as code does; most prose is told by that alone
MOST_ERRORS = 0.1  # an excerpt begins and ends anywhere
CODE_LINE = re.compile(r"\s*(?://|/\*|\*|#|@).*|.*[;{}(),:\[\]>]\s*")


def parse_plain(source: str) -> Parsed:
    """Code by its symbols, all else by its paragraphs; *source* has LF line ends."""
    return _code(source) or parse_text(source)


def _code(source: str) -> Parsed | None:
    """The source by its symbols; None where it has none, or is no code.

    Its language is not stated: a close relative's grammar may read an excerpt best.
    """
    lines = [line for line in source.split("\n") if line.strip()] if len(source) <= MOST_CHARS else []
    if len(lines) < LEAST_LINES or sum(map(bool, map(CODE_LINE.fullmatch, lines))) < LEAST_SHARE * len(lines):
        return None
    code = import_module("ingest.parsers.code")  # its grammars take a while to load, and most text needs none
    for language in sorted(LANGUAGES, key=lambda language: code.error_share(source[:SAMPLE_CHARS], language))[:TRIED]:
        if code.error_share(source, language) <= MOST_ERRORS:
            parsed: Parsed = code.parse_code(source, language=language, name="")
            if parsed.first_heading():
                return replace(parsed, facets=Facets())
    return None
