"""Bytes to a parsed document, by content type or file name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import PurePosixPath

from ingest.blocks import Parsed
from ingest.clauses import with_clauses
from ingest.parsers.encodings import decode_text
from ingest.parsers.markdown import parse_markdown
from ingest.parsers.signatures import check_signature
from ingest.parsers.text import parse_text
from ingest.parsers.unnamed_code import parse_plain
from ingest.typography import plain_letters
from rag.errors import InvalidInput, UnsupportedFormat
from rag.formats import CONTENT_TYPES, SUFFIXES
from rag.language import language
from rag.storable import cleaned

READABLE_SUFFIXES = frozenset(SUFFIXES)

TEXT_PARSERS: dict[str, Callable[[str], Parsed]] = {"markdown": parse_markdown, "text": parse_plain}

# module and function by format: imported when one comes, since some libraries take long to load
BYTES_PARSERS: dict[str, tuple[str, str]] = {
    "html": ("html", "parse_html"),
    "pdf": ("pdf", "parse_pdf"),
    "docx": ("docx", "parse_docx"),
    "pptx": ("pptx", "parse_pptx"),
    "xlsx": ("xlsx", "parse_xlsx"),
    "csv": ("csv_table", "parse_csv"),
    "notebook": ("notebook", "parse_notebook"),
    "eml": ("eml", "parse_eml"),
    "epub": ("epub", "parse_epub"),
    "json": ("json_data", "parse_json"),
    "jsonl": ("json_data", "parse_jsonl"),
    "yaml": ("json_data", "parse_yaml"),
}


NO_LANGUAGE_NAMED = "en"  # or English named, which a text in another language does by mistake, as pages from a template
SMALL_WORDS = 5  # different ones of a language that a text has to have; names and quotations bring fewer

# formats of running text, where `4.2.1` in front of a paragraph is a clause and not a version or a value
WITH_CLAUSES = frozenset({"markdown", "text", "html", "pdf", "docx", "epub"})


def parse(data: bytes, *, name: str, content_type: str | None = None) -> Parsed:
    """The document in *data*; an explicit content type decides over the suffix of *name*.

    Raises UnsupportedFormat for a format that is not read, InvalidInput for one that cannot be.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    suffix = PurePosixPath(name).suffix.lower()
    kind = CONTENT_TYPES.get(media_type) if media_type else SUFFIXES.get(suffix)
    if kind is None:
        known = ", ".join(CONTENT_TYPES) if media_type else " ".join(SUFFIXES)
        raise UnsupportedFormat(f"{name}: {media_type or suffix or 'no suffix'} is not read; what is: {known}")
    try:
        check_signature(data, kind)
        parsed = _code(data, name, media_type or suffix) if kind == "code" else _parser(kind)(data)
    except (InvalidInput, UnsupportedFormat) as exc:
        raise type(exc)(f"{name}: {exc.detail}") from exc
    if not parsed.text:  # front matter alone still names what the page is about
        parsed = replace(parse_text(parsed.facets.title), facets=parsed.facets)
    if not parsed.text:
        raise InvalidInput(f"{name}: there is no text in it")
    parsed = _in_its_language(parsed)
    return _cleaned(with_clauses(parsed) if kind in WITH_CLAUSES else parsed)


def _in_its_language(parsed: Parsed) -> Parsed:
    """With the language that the text shows, where the document names none: its words are stemmed by it."""
    if {block.kind for block in parsed.blocks} - {"heading"} == {"code"}:  # whatever its remarks are in
        return parsed
    if parsed.facets.lang != NO_LANGUAGE_NAMED or not (shown := language(parsed.text, least=SMALL_WORDS)):
        return parsed
    return replace(parsed, facets=replace(parsed.facets, lang=shown))


def _cleaned(parsed: Parsed) -> Parsed:
    """Without the NUL bytes and lone surrogates that PDF and Office files hold, which no database takes."""
    facets = parsed.facets
    metadata = {cleaned(k): cleaned(v) if isinstance(v, str) else v for k, v in facets.metadata.items()}
    blocks = (
        replace(block, caption=cleaned(block.caption), rows=tuple(tuple(map(cleaned, row)) for row in block.rows))
        for block in parsed.blocks
    )
    return replace(
        parsed,
        text=cleaned(parsed.text),
        blocks=tuple(blocks),
        facets=replace(facets, title=cleaned(plain_letters(facets.title)), metadata=metadata),
    )


def _parser(kind: str) -> Callable[[bytes], Parsed]:
    if kind in TEXT_PARSERS:
        return lambda data: TEXT_PARSERS[kind](decode_text(data))
    module, function = BYTES_PARSERS[kind]
    parser: Callable[[bytes], Parsed] = getattr(import_module(f"ingest.parsers.{module}"), function)
    return parser


def _code(data: bytes, name: str, language_of: str) -> Parsed:
    code = import_module("ingest.parsers.code")
    language = {**code.LANGUAGE_BY_SUFFIX, **code.LANGUAGE_BY_CONTENT_TYPE}[language_of]
    parsed: Parsed = code.parse_code(decode_text(data), language=language, name=name)
    return parsed
