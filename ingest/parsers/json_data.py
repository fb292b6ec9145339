"""JSON and YAML data to rows: objects as `path: value`, arrays of objects as tables; API descriptions by operation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.encodings import decode_text
from ingest.parsers.openapi import describes_api, render_api
from ingest.tables import Row, caption_of, row_line
from rag.errors import InvalidInput
from rag.values import Facets

Json: TypeAlias = Any
MAX_DEPTH = 60
MAX_GROWTH = 50  # YAML aliases and long keys can be written out to far more than they are
FREE_CHARS = 10_000_000  # growth up to here does no harm


def parse_json(data: bytes) -> Parsed:
    """The rows of a JSON document, or the operations if it describes an API; JSON Lines are taken too."""
    text = decode_text(data)
    try:
        value = load_json(text)
    except json.JSONDecodeError as exc:
        if exc.msg == "Extra data":
            return _parse_lines(text)
        raise InvalidInput(f"This is not valid JSON: {exc}.") from exc
    return _render(value, len(text))


def parse_jsonl(data: bytes) -> Parsed:
    """One row for each line of JSON Lines."""
    return _parse_lines(decode_text(data))


def parse_yaml(data: bytes) -> Parsed:
    """The rows of a YAML document, or the operations if it describes an API; all values as they are written."""
    text = decode_text(data)
    try:
        documents = list(yaml.load_all(text, Loader=yaml.CBaseLoader))  # makes texts only
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as exc:  # the latter two for keys that are mappings
        raise InvalidInput(f"This is not valid YAML: {exc}") from exc
    return _render(documents[0] if len(documents) == 1 else documents, len(text))


def load_json(text: str) -> Json:
    """The value in *text*, its numbers as they are written.

    Raises json.JSONDecodeError, and InvalidInput for what is nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as exc:
        raise InvalidInput(f"This JSON is nested more than {MAX_DEPTH} levels deep; it is not read.") from exc


def _parse_lines(text: str) -> Parsed:
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            values += [load_json(line)] if line.strip() else []
        except json.JSONDecodeError as exc:
            raise InvalidInput(f"Line {number} is not valid JSON: {exc.msg}.") from exc
    return _render(values, len(text))


def _render(value: Json, source_chars: int) -> Parsed:
    if describes_api(value):
        return render_api(value)
    writer = _Writer(max(FREE_CHARS, MAX_GROWTH * source_chars))
    writer.add("", value)
    title = value.get("title") if isinstance(value, dict) else None
    return writer.document.parsed(Facets(title=" ".join(title.split()) if isinstance(title, str) else ""))


class _Writer:
    """Writes a value's rows into a document; arrays of objects become tables where they stand."""

    def __init__(self, max_chars: int) -> None:
        self.document = TextBuilder()
        self._rows: list[Row] = []
        self._chars_left = max_chars

    def add(self, path: str, value: Json) -> None:
        self._walk(path, value, 0)
        self._end_rows("")

    def _walk(self, path: str, value: Json, depth: int) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                self._walk(_joined(path, key), part, _deeper(depth))
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            self._end_rows("")
            self.document.add("paragraph", path)
            self._rows = [tuple(self._fields("", row, depth)) for row in value]
            self._end_rows(caption_of(path))
        else:
            self._rows += [(field,) for field in self._fields(path, value, depth)]

    def _end_rows(self, caption: str) -> None:
        rows = tuple(filter(None, self._rows))
        self.document.add("table", "\n".join(map(row_line, rows)), caption=caption, rows=rows)
        self._rows = []

    def _fields(self, path: str, value: Json, depth: int) -> Iterator[str]:
        """The value's leaves as `path: value`; a list of single values is one field."""
        if isinstance(value, dict):
            for key, part in value.items():
                yield from self._fields(_joined(path, key), part, _deeper(depth))
        elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
            for n, part in enumerate(value):
                yield from self._fields(f"{path}[{n}]", part, _deeper(depth))
        else:
            text = ", ".join(filter(None, map(_leaf, value))) if isinstance(value, list) else _leaf(value)
            self._count(len(path) + len(text) + 1)
            if text:
                yield f"{path}: {text}" if path else text

    def _count(self, chars: int) -> None:
        self._chars_left -= chars
        if self._chars_left < 0:
            raise InvalidInput("This document is too much text when its values are written out; split it.")


def _leaf(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else " ".join(str(value).split())


def _joined(path: str, key: object) -> str:
    name = " ".join(str(key).split())
    return f"{path}.{name}" if path else name


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"This document is nested more than {MAX_DEPTH} levels deep; it is not read.")
    return depth + 1
