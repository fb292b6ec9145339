"""Source code that came as plain text, where no file name says so: what it is written in, and its symbols."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module

from ingest.blocks import Parsed
from rag.values import Facets

LANGUAGES = ("java", "rust", "cpp", "csharp", "go", "javascript", "typescript", "python")  # of equals, the first
SAMPLE_CHARS = 4000  # shows what it is in; each grammar reads it, some slowly what they do not know
LEAST_LINES = 3
LEAST_SHARE = 0.3  # of the lines end or begin as code does: half of a function may be its documentation
MOST_ERRORS = 0.1  # of what the grammar reads: an excerpt begins and ends anywhere
CODE_LINE = re.compile(r"\s*(?://|/\*|\*|#|@).*|.*[;{}(),:\[\]>]\s*")


def parse_unnamed_code(source: str) -> Parsed | None:
    """The symbols of *source*, which has LF line ends; None for what is no code, or has no symbol.

    The language is that of the grammar that reads it best, which may be a close relative, so it is not stated.
    """
    sample = source[:SAMPLE_CHARS].rpartition("\n")[0] if len(source) > SAMPLE_CHARS else source
    lines = [line for line in sample.split("\n") if line.strip()]
    if len(lines) < LEAST_LINES or sum(map(bool, map(CODE_LINE.fullmatch, lines))) < LEAST_SHARE * len(lines):
        return None
    code = import_module("ingest.parsers.code")  # its grammars take a while to load, and most text needs none
    errors = {language: code.unreadable(sample, language) for language in LANGUAGES}
    language = min(errors, key=errors.__getitem__)
    if errors[language] > MOST_ERRORS:
        return None
    parsed: Parsed = code.parse_code(source, language=language, name="")
    return replace(parsed, facets=Facets()) if parsed.first_heading() else None
