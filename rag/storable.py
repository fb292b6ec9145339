"""What can be stored: text that PostgreSQL and UTF-8 hold, numbers that JSON has."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

from rag.errors import InvalidInput

MAX_EXTERNAL_ID = 512  # characters; with four bytes each it still fits an index
INDEXED = ("doc_type", "source", "lang")
MAX_INDEXED = 512
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(value: object) -> bool:
    """Whether no text in a JSON value has a NUL or a lone surrogate, and every number is finite and of 64 bits."""
    match value:
        case str():
            return UNSTORABLE.search(value) is None
        case float():
            return math.isfinite(value)
        case int():
            return -(2**63) <= value < 2**63
        case dict():
            return all(storable(key) and storable(part) for key, part in value.items())
        case list() | tuple():
            return all(map(storable, value))
        case _:
            return True


def cleaned(text: str) -> str:
    """The text with a replacement character for each NUL and lone surrogate: as long as before, so spans hold."""
    return UNSTORABLE.sub("\ufffd", text)


def check_facets(facets: Mapping[str, object]) -> None:
    """Return if the facets can be stored.

    Raises InvalidInput.
    """
    for name, value in facets.items():
        if not storable(value):
            what = "a NUL or a lone surrogate, which no text has, or a number that is not finite or over 64 bits"
            raise InvalidInput(f"{name}: it has {what}")
        if name in INDEXED and isinstance(value, str) and len(value) > MAX_INDEXED:
            raise InvalidInput(f"{name}: {len(value)} characters, the limit is {MAX_INDEXED}")


def check_validity(valid_from: datetime | None, valid_to: datetime | None) -> None:
    """Return if there is a moment between the two, where both are given.

    Raises InvalidInput.
    """
    if valid_from and valid_to and valid_to <= valid_from:
        raise InvalidInput("valid_to: it must be after valid_from; the document would never be valid")


def check_external_id(external_id: str) -> str:
    """The id, if it can name a document.

    Raises InvalidInput.
    """
    if not external_id.strip() or len(external_id) > MAX_EXTERNAL_ID or not storable(external_id):
        raise InvalidInput(f"external_id: 1 to {MAX_EXTERNAL_ID} characters, without NUL or lone surrogates")
    return external_id
