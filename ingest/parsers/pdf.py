"""PDF to blocks: text in reading order, tables, headings by their letters, pages as lowest headings."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

import pdfplumber
from pdfminer.pdfdocument import PDFPasswordIncorrect
from pdfminer.pdfexceptions import PDFException
from pdfminer.psexceptions import PSException
from pdfplumber.utils.exceptions import MalformedPDFException, PdfminerException

from ingest.blocks import Parsed, TextBuilder
from ingest.grids import add_grid, add_rows, form_rows
from ingest.parsers.figure_tables import CURRENCY, names_columns
from ingest.parsers.page_layout import Line
from ingest.parsers.pdf_headings import PARAGRAPH_GAP, SENTENCE_ENDS, Headings, usual_spacing
from ingest.parsers.pdf_page import read_page
from ingest.tables import Row
from ingest.typography import plain_letters, rejoin, vocabulary
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

PAGE_LEVEL = 7  # below every heading, so that a page's name ends the breadcrumb and never divides the outline
EDGE_LINES = 3  # running heads and feet are among the first and last lines of a page
RUNNING_PAGES = 3  # a line on fewer pages may be said again on purpose
BULLET = re.compile(r"[•●▪■◦‣∙·–—-]\s|\(?[a-z0-9]{1,3}[.)]\s")
UNTITLED = re.compile(r"(?i)untitled\b.*|.*\.(?:docx?|pptx?|xlsx?|indd|qxd|pdf|rtf|odt)")
# the builtin ones were seen to come through on altered files
BUILTIN_DAMAGE = (ValueError, TypeError, KeyError, IndexError)
DAMAGE = (PdfminerException, MalformedPDFException, PDFException, PSException, *BUILTIN_DAMAGE)


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    lines: list[Line]
    has_image: bool


def parse_pdf(data: bytes) -> Parsed:
    """The text and tables of a PDF; each section's breadcrumb ends with its page where there are several.

    Raises InvalidInput for a file that is no PDF, damaged, closed by a password, or without text.
    """
    if b"%PDF-" not in data[:1024]:
        raise InvalidInput("This is not a PDF file; export it again as PDF.")
    try:
        with pdfplumber.open(io.BytesIO(data)) as pdf:
            facets = _facets(pdf.metadata)
            pages = [_read(page) for page in pdf.pages]
    except DAMAGE as exc:
        raise InvalidInput(_reason(exc)) from exc
    return _Writer(_without_running_lines(pages)).write(facets)


def _read(page: pdfplumber.page.Page) -> _Page:
    found = _Page(page.page_number, read_page(page), bool(page.images))
    page.close()  # frees what was read, else memory grows with the pages
    return found


def _reason(exc: Exception) -> str:
    cause = exc.args[0] if isinstance(exc, PdfminerException) and exc.args else exc
    if isinstance(cause, PDFPasswordIncorrect):
        return "This PDF is encrypted and needs a password to open; save it without a password."
    return f"This PDF is damaged and cannot be read ({cause or type(cause).__name__}); export it again."


def _facets(properties: dict[str, object]) -> Facets:
    words = {key: " ".join(plain_letters(value).split()) for key, value in properties.items() if isinstance(value, str)}
    title = words.get("Title", "")
    named = {"author": "Author", "subject": "Subject", "keywords": "Keywords"}
    metadata: dict[str, Scalar] = {
        key: words[name] for key, name in named.items() if words.get(name) not in (None, "", "anonymous", "unspecified")
    }
    if created := _moment(words.get("CreationDate", "")):
        metadata["created"] = created
    is_name = any(map(str.isalpha, title)) and not UNTITLED.fullmatch(title)
    return Facets(title=title if is_name else "", metadata=metadata)


def _moment(stated: str) -> str:
    """The date in ISO form, of `D:20240131...`; an empty text if it is none."""
    try:
        return datetime.strptime(stated.removeprefix("D:")[:8], "%Y%m%d").date().isoformat()  # noqa: DTZ007  # a day
    except ValueError:
        return ""


def _without_running_lines(pages: list[_Page]) -> list[_Page]:
    """The pages with the heads and feet that most of them repeat only where they stand first."""
    keys = [{line: _key(line, page.number) for line in _edges(page.lines)} for page in pages]
    counts = Counter(key for of_page in keys for key in set(of_page.values()))
    running = {key for key, count in counts.items() if count >= RUNNING_PAGES and 2 * count > len(pages)}
    seen: set[str] = set()
    kept = []
    for page, of_page in zip(pages, keys, strict=True):
        lines = [line for line in page.lines if of_page.get(line) not in seen]
        kept.append(_Page(page.number, lines, page.has_image))
        seen |= running.intersection(of_page.values())
    return kept


def _edges(lines: Sequence[Line]) -> list[Line]:
    upright = sorted((line for line in lines if not line.rows), key=lambda line: line.top)
    return upright[:EDGE_LINES] + upright[EDGE_LINES:][-EDGE_LINES:]


def _key(line: Line, page: int) -> str:
    """The line's text without the page's own number; other numbers, such as an invoice's, tell lines apart."""
    return re.sub(rf"(?<!\d){page}(?!\d)", "#", line.text)


class _Writer:
    """Writes the pages into a document: lines to paragraphs, the page's name before what stands on it."""

    def __init__(self, pages: list[_Page]) -> None:
        self._pages = pages
        self._document = TextBuilder()
        self._headings = Headings([page.lines for page in pages])
        self._known = vocabulary(plain_letters("\n".join(line.text for page in pages for line in page.lines)))
        self._paragraph: list[Line] = []
        self._starts_on = 0  # page where the open paragraph starts
        self._last_page = 0  # page of its last line
        self._named = 0  # page whose name stands under the newest heading
        self._spacing = 0.0

    def write(self, facets: Facets) -> Parsed:
        if not any(page.lines for page in self._pages):
            raise InvalidInput(
                f"This PDF has no text on its {len(self._pages)} pages, they are pictures (a scan?); "
                "run text recognition (OCR) on it first."
            )
        for page in self._pages:
            self._spacing = usual_spacing(page.lines)
            for line in page.lines:
                self._add(page.number, line)
        self._end_paragraph()
        parsed = self._document.parsed(facets, tuple(self._warnings()))
        if facets.title:
            return parsed
        title = _title(parsed, below=self._headings.bold_level)
        return self._document.parsed(replace(facets, title=title), parsed.warnings)

    def _warnings(self) -> Iterator[str]:
        blank = [str(page.number) for page in self._pages if page.has_image and not page.lines]
        if blank:
            yield f"pages without text, only pictures: {', '.join(blank)}"

    def _add(self, page: int, line: Line) -> None:
        if line.rows:
            self._end_paragraph()
            self._name(page)
            self._table(line)
        elif line.text:
            if self._paragraph and not self._continues(page, line):
                self._end_paragraph()
            self._starts_on = self._starts_on if self._paragraph else page
            self._last_page = page
            self._paragraph.append(line)

    def _table(self, line: Line) -> None:
        if line.is_read:
            add_rows(self._document, line.rows)
            return
        # a cell across the whole table is a title, not a value of every column
        rows = [row[:1] if len(set(row)) == 1 else row for row in line.rows]
        if names_columns(rows) or form_rows(rows):
            add_grid(self._document, rows)
        else:
            add_rows(self._document, tuple(map(_values, rows)))

    def _continues(self, page: int, line: Line) -> bool:
        """Whether the line goes on with the open paragraph, perhaps in the next column or on the next page."""
        last = self._paragraph[-1]
        if self._headings.level(last) != self._headings.level(line) or (
            self._headings.level(line) and last.size != line.size
        ):
            return False
        if page != self._last_page or line.top < last.top:
            return not self._headings.level(line) and not last.text.endswith(SENTENCE_ENDS) and line.text[0].islower()
        if BULLET.match(line.text) or line.top - last.bottom > self._spacing + PARAGRAPH_GAP * line.size:
            return False
        return not (line.x0 > last.x0 + 0.8 * line.size and last.text.endswith(SENTENCE_ENDS))

    def _end_paragraph(self) -> None:
        lines, self._paragraph = self._paragraph, []
        if not lines:
            return
        joined = rejoin(plain_letters("\n".join(line.text for line in lines)), self._known)
        text = " ".join(joined.split())
        if level := self._headings.level(lines[0]):
            self._document.add("heading", text, level=level)
            self._named = 0
            return
        self._name(self._starts_on)
        self._document.add("paragraph", text)

    def _name(self, page: int) -> None:
        if len(self._pages) > 1 and page != self._named:
            self._document.add("heading", f"Page {page}", level=PAGE_LEVEL)
            self._named = page


def _values(row: Row) -> Row:
    """The row's values, each once where it stands in several places, currency signs at theirs."""
    values: list[str] = []
    for cell, _ in groupby(filter(None, row)):
        joins = values and values[-1] in CURRENCY
        values.append(values.pop() + cell if joins else cell)
    return tuple(values)


def _title(parsed: Parsed, *, below: int) -> str:
    """The first of the highest headings that have larger letters than the text."""
    headings = (block for block in parsed.blocks if block.kind == "heading" and block.level < below)
    first = min(headings, key=lambda block: block.level, default=None)
    return parsed.of(first) if first else ""
