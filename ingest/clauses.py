"""Legal and policy text by its clauses: `4.2.1`, `Article 5`, `§ 12` and `(a)` in front of paragraphs as headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ingest.blocks import Parsed, TextBuilder
from ingest.cuts import COLONS, SENTENCE_MARKS
from ingest.tables import caption_of, introduction_of

CLAUSE_LEVEL = 7  # below the headings of every format, so that each of them ends a clause
BRACKET_LEVEL = 15  # below `1.2.3.4.5.6`
TITLE_CHARS = 80  # a numbered line this short that is no sentence is the clause's title
NO_TITLE_ENDS = (*SENTENCE_MARKS, *COLONS, ";", ",")
CLAUSE = re.compile(
    r"(?:(?P<number>[1-9]\d{0,2}(?:(?:\.[1-9]\d{0,2}){1,5}\.?|\.))"
    r"|(?P<word>(?:§{1,2}|Article|Section|Clause|Art\.|Artikel|ARTICLE|SECTION|CLAUSE)\s*\d{1,4}[a-z]?)"
    r"(?:[.)]|:(?=\s+\S))?"
    r"|\((?P<bracket>[a-z]|[ivx]{1,5}|[1-9]\d?)\))(?=\s|\Z)\s*"
)
LINE_ENDS = (".", ";", ":", " and", " or")  # of the line above a clause; "as set out in\n4.2 above" goes on
ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")


@dataclass(frozen=True, slots=True)
class _Clause:
    form: str  # what those beside it have too: `number`, `§`, `Article`, `(a)`, `(i)`, `(1)`
    name: str
    body: str = ""

    def key(self) -> tuple[str, str]:
        return self.form, self.name

    def following(self) -> tuple[str, str]:
        """The key of the clause after it."""
        inner = self.name.strip("()")
        if self.form == "(i)":
            after = dict(pairwise(ROMAN)).get(inner, "")
        elif self.form == "(a)":
            after = chr(ord(inner) + 1)
        else:
            after = re.sub(r"\d+(?=\D*\Z)", lambda last: str(int(last[0]) + 1), inner)
        return self.form, f"({after})" if self.form.startswith("(") else after


def with_clauses(parsed: Parsed) -> Parsed:
    """The document with a heading for each clause, so that breadcrumbs carry it; one without clauses as it is.

    A form counts where two in a row have it: a lone "3.2 million people" is prose.
    """
    paragraphs = (parsed.of(block) for block in parsed.blocks if block.kind == "paragraph")
    found = [clause for text in paragraphs for part in _parts(text) for clause in _readings(part)]
    keys = {clause.key() for clause in found}
    forms = {clause.form for clause in found if clause.following() in keys}
    steps = {("number", name) for form, name in keys if name.isdecimal() and (form, f"{name}.1") not in keys}
    keys = {key for key in keys - steps if key[0] in forms}  # `4.` is a clause only above `4.1`
    return _Rebuilding(parsed, keys).read() if keys else parsed


class _Rebuilding:
    """Copies a document and puts headings in; what is open is in the fields."""

    def __init__(self, parsed: Parsed, keys: set[tuple[str, str]]) -> None:
        self._parsed = parsed
        self._keys = keys
        self._document = TextBuilder()
        self._last: _Clause | None = None
        self._introductions: dict[str, str] = {}  # to the open clauses in brackets, by their form, outermost first

    def read(self) -> Parsed:
        for block in self._parsed.blocks:
            text = self._parsed.of(block)
            if block.kind == "paragraph":
                self._paragraph(text, block.caption)
                continue
            if block.kind == "heading":
                self._introductions = {}
            caption = block.caption and (caption_of(self._document.last_paragraph()) or block.caption)
            self._document.add(block.kind, text, level=block.level, caption=caption, rows=block.rows)
        return self._document.parsed(self._parsed.facets, self._parsed.warnings)

    def _paragraph(self, text: str, caption: str) -> None:
        plain: list[str] = []
        for part in _parts(text):
            if clause := self._clause(part):
                self._document.add("paragraph", "\n".join(plain), caption=caption)
                plain = []
                self._add(clause, part)
            else:
                plain.append(part)
        self._document.add("paragraph", "\n".join(plain), caption=caption)

    def _clause(self, text: str) -> _Clause | None:
        """What *text* begins with; `(i)` follows `(h)`, and else it is a Roman one."""
        readings = [reading for reading in _readings(text) if reading.key() in self._keys]
        expected = self._last.following() if self._last else None
        return next((reading for reading in readings if reading.key() == expected), next(iter(readings), None))

    def _add(self, clause: _Clause, text: str) -> None:
        self._last = clause
        level, caption = self._place(clause)
        is_title = level < BRACKET_LEVEL and len(text) <= TITLE_CHARS and not text.endswith(NO_TITLE_ENDS)
        self._document.add("heading", " ".join(text.split()) if is_title else clause.name, level=level)
        self._document.add("paragraph", "" if is_title else clause.body, caption=caption)

    def _place(self, clause: _Clause) -> tuple[int, str]:
        """The level, and what introduces a clause in brackets: it is half of a sentence without."""
        if not clause.form.startswith("("):
            self._introductions = {}
            return CLAUSE_LEVEL + (clause.name.count(".") + 1 if clause.form == "number" else 0), ""
        forms = [*self._introductions]
        if clause.form in forms:
            for inner in forms[forms.index(clause.form) + 1 :]:
                del self._introductions[inner]
        else:
            before = self._document.last_paragraph()
            self._introductions[clause.form] = introduction_of(before)
        return BRACKET_LEVEL + [*self._introductions].index(clause.form), self._introductions[clause.form]


def _parts(text: str) -> Iterator[str]:
    """The paragraph, cut before the lines that may begin a clause."""
    begin = 0
    for line in re.finditer(r"\n", text):
        if CLAUSE.match(text, line.end()) and text.endswith(LINE_ENDS, begin, line.start()):
            yield text[begin : line.start()]
            begin = line.end()
    yield text[begin:]


def _readings(text: str) -> Iterator[_Clause]:
    found = CLAUSE.match(text)
    if found is None:
        return
    body = text[found.end() :]
    if found["number"]:
        yield _Clause("number", found["number"].removesuffix("."), body)
    elif found["word"]:
        yield _Clause(re.sub(r"[\s\d].*", "", found["word"]), " ".join(found["word"].split()), body)
    else:
        inner = found["bracket"]
        forms = {"(i)": inner in ROMAN, "(a)": len(inner) == 1 and inner.isalpha(), "(1)": inner.isdecimal()}
        yield from (_Clause(form, f"({inner})", body) for form, holds in forms.items() if holds)
