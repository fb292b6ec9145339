"""What can be stored: text that PostgreSQL and UTF-8 hold, numbers that JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rag.errors import InvalidInput

MAX_EXTERNAL_ID = 512  # characters; with four bytes each it still fits an index


def storable(value: object) -> bool:
    """Whether no text in a JSON value has a NUL or a lone surrogate, and every number in it is finite."""
    match value:
        case str():
            return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
        case float():
            return math.isfinite(value)
        case dict():
            return all(storable(key) and storable(part) for key, part in value.items())
        case list() | tuple():
            return all(map(storable, value))
        case _:
            return True


def check_facets(facets: Mapping[str, object]) -> None:
    """Return if the facets can be stored.

    Raises InvalidInput.
    """
    if not storable(dict(facets)):
        raise InvalidInput("a field has a NUL or a lone surrogate, which no text has, or a number that is not finite")


def check_external_id(external_id: str) -> str:
    """The id, if it can name a document.

    Raises InvalidInput.
    """
    if not external_id.strip() or len(external_id) > MAX_EXTERNAL_ID or not storable(external_id):
        raise InvalidInput(f"external_id: 1 to {MAX_EXTERNAL_ID} characters, without NUL or lone surrogates")
    return external_id
