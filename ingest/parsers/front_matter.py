"""YAML front matter to facets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import yaml

from rag.errors import InvalidInput
from rag.values import Facets, Scalar

FENCED = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
TEXT_KEYS = ("title", "doc_type", "source", "lang")
KNOWN_KEYS = frozenset({*TEXT_KEYS, "tags", "acl", "valid_from", "valid_to"})
MAX_BRACKETS = 1000  # the YAML reader's time grows with the square of those left open
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # what YAML escapes can make and neither UTF-8 nor PostgreSQL takes
# beside YAMLError, the YAML reader lets these through for bad dates, numbers and tags, and for deep nesting
YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands above a document, and the document's own body."""

    facets: Facets
    body: str
    warnings: tuple[str, ...] = ()


def read_front_matter(source: str) -> FrontMatter:
    """Facets from the YAML between two `---` lines at the very start; without one, *source* is all body."""
    fenced = FENCED.match(source)
    values = _load(fenced[1]) if fenced else None
    if fenced is None or values is None:
        return FrontMatter(Facets(), source)
    known = {key.lower(): value for key, value in values.items() if key.lower() in KNOWN_KEYS}
    metadata: dict[str, Scalar] = {}
    warnings: list[str] = []
    for key, value in _flat({key: value for key, value in values.items() if key.lower() not in KNOWN_KEYS}):
        if (scalar := _scalar(key, value)) is not None:
            metadata[_text("a key", key)] = scalar
        elif value is not None:
            warnings.append(f"front matter: {key} is left out; write a single value or a plain list")
    return FrontMatter(_facets(known, metadata), source[fenced.end() :], tuple(warnings))


def _load(text: str) -> dict[str, Any] | None:
    """The mapping in *text*; None when it is no mapping, so the fences were only rules."""
    if text.count("[") + text.count("{") > MAX_BRACKETS:
        raise InvalidInput("Front matter has too many brackets; write long lists one item a line.")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InvalidInput("Front matter has a YAML alias (*name); write the value out.")
        values = yaml.safe_load(text)
    except YAML_ERRORS as exc:
        raise InvalidInput(f"Front matter is not valid YAML: {exc}") from exc
    if values is None:
        return {}
    return {str(key): value for key, value in values.items()} if isinstance(values, dict) else None


def _facets(known: dict[str, Any], metadata: dict[str, Scalar]) -> Facets:
    texts = {key: _text(key, known[key]) for key in TEXT_KEYS if known.get(key) is not None}
    return Facets(
        title=" ".join(texts.get("title", "").split()),
        doc_type=texts.get("doc_type"),
        source=texts.get("source"),
        lang=texts.get("lang", "en"),
        tags=_tags(known.get("tags")),
        metadata=metadata,
        acl=_acl(known["acl"]) if "acl" in known else (),
        valid_from=_moment("valid_from", known.get("valid_from")),
        valid_to=_moment("valid_to", known.get("valid_to")),
    )


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"Front matter: {key} must be text; write it in quotes.")
    if UNSTORABLE.search(value):
        raise InvalidInput(f"Front matter: {key} has an escaped character that is no text; remove it.")
    return value.strip()


def _tags(value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if items is None:
        return ()
    if not isinstance(items, list) or not all(type(item) in (str, int, float) for item in items):
        raise InvalidInput("Front matter: tags must be a list such as [billing, eu] or a text such as billing, eu.")
    return tuple(filter(None, (_text("tags", str(item)) for item in items)))


def _acl(value: object) -> tuple[str, ...]:
    # an empty or single value is refused, because reading it as "everyone" would open a closed document
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise InvalidInput("Front matter: acl must be a list of groups such as [finance, board]; leave it out for all.")
    return tuple(_text("acl", item) for item in value)


def _moment(key: str, value: object) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else _iso(value))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(f"Front matter: {key} must be a date such as 2025-01-31 or 2025-01-31T09:00:00Z.") from exc


def _iso(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else ""


def _flat(values: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _scalar(key: str, value: object) -> Scalar | None:
    if isinstance(value, list):
        items = [_scalar(key, item) for item in value if not isinstance(item, list)]
        return ", ".join(map(str, items)) if len(items) == len(value) and None not in items else None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    if isinstance(value, str):
        return _text(key, value)
    return value if isinstance(value, int | float) else None
