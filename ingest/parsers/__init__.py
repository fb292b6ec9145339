"""Bytes to a parsed document, by content type or file name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from ingest.blocks import Parsed
from ingest.parsers.markdown import parse_markdown
from ingest.parsers.text import parse_text
from rag.errors import InvalidInput, UnsupportedFormat

BY_SUFFIX: dict[str, Callable[[str], Parsed]] = {
    ".md": parse_markdown,
    ".markdown": parse_markdown,
    ".mdown": parse_markdown,
    ".txt": parse_text,
    ".text": parse_text,
}
BY_CONTENT_TYPE: dict[str, Callable[[str], Parsed]] = {
    "text/markdown": parse_markdown,
    "text/x-markdown": parse_markdown,
    "text/plain": parse_text,
}
READABLE_SUFFIXES = frozenset(BY_SUFFIX)


def parse(data: bytes, *, name: str, content_type: str | None = None) -> Parsed:
    """The document in *data*; an explicit content type decides over the suffix of *name*."""
    parser = _parser(name, content_type)
    parsed = parser(_decode(data, name))
    if not parsed.text:  # front matter alone still names what the page is about
        parsed = replace(parse_text(parsed.facets.title), facets=parsed.facets)
    if not parsed.text:
        raise InvalidInput(f"{name} has no text.")
    return parsed


def _parser(name: str, content_type: str | None) -> Callable[[str], Parsed]:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    suffix = PurePosixPath(name).suffix.lower()
    found = BY_CONTENT_TYPE.get(media_type) if media_type else BY_SUFFIX.get(suffix)
    if found is None:
        raise UnsupportedFormat(
            f"{name} ({media_type or suffix or 'no file extension'}) is not read. "
            f"Content types read: {', '.join(BY_CONTENT_TYPE)}; file extensions: {', '.join(BY_SUFFIX)}."
        )
    return found


def _decode(data: bytes, name: str) -> str:
    if b"\0" in data:
        raise InvalidInput(f"{name} contains NUL bytes; is it a binary file?")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{name} is not UTF-8 at byte {exc.start}; save it as UTF-8.") from exc
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
