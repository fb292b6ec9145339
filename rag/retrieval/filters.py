"""The filter algebra as callers write it, checked and typed; `store/filters.py` turns it into SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args

from rag.errors import InvalidInput
from rag.storable import storable
from rag.values import All, Any, Filter, Leaf, Not, Scalar

TEXT_FIELDS = ("doc_type", "source", "lang", "external_id")
TIME_FIELDS = ("created_at", "valid_from", "valid_to")
OPS = get_args(Leaf.__annotations__["op"]) or ("eq", "ne", "in", "lt", "lte", "gt", "gte", "exists", "contains")
MAX_DEPTH = 16
MAX_LEAVES = 256
MAX_TEXT = 1000
MAX_VALUES = 1000  # of one `in`

_FIELDS = ", ".join((*TEXT_FIELDS, *TIME_FIELDS, "tags", "metadata.<key>"))


def parse_filter(raw: object) -> Filter | None:
    """The typed filter, or None when there is none: absent means the whole tenant.

    An empty `in` list and `any: []` match nothing, `all: []` everything. Raises InvalidInput naming the part at fault.
    """
    if raw is None:
        return None
    leaves = [0]
    return _part(raw, "filters", depth=0, leaves=leaves)


def parse_moment(value: object, where: str) -> datetime:
    """An aware datetime from an ISO date or datetime; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError as exc:
        raise InvalidInput(f"{where}: {str(value)[:40]!r} is no ISO date such as 2026-01-31") from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _part(raw: object, where: str, *, depth: int, leaves: list[int]) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"filters are nested deeper than {MAX_DEPTH}")
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"{where}: expected an object such as {{field, op, value}}, {{all: [...]}} or {{not: ...}}")
    match sorted(map(str, raw)):
        case ["all"]:
            return All(_parts(raw["all"], f"{where}.all", depth=depth, leaves=leaves))
        case ["any"]:
            return Any(_parts(raw["any"], f"{where}.any", depth=depth, leaves=leaves))
        case ["not"]:
            return Not(_part(raw["not"], f"{where}.not", depth=depth + 1, leaves=leaves))
        case ["field", "op", "value"]:
            leaves[0] += 1
            if leaves[0] > MAX_LEAVES:
                raise InvalidInput(f"filters have more than {MAX_LEAVES} conditions")
            return _leaf(raw, where)
        case names:
            wanted = "exactly field, op and value, or one of all, any, not"
            wanted += "; the value of exists is true or false" if raw.get("op") == "exists" else ""
            raise InvalidInput(f"{where}: expected {wanted}; got {str(names)[:60]}")


def _parts(raw: object, where: str, *, depth: int, leaves: list[int]) -> tuple[Filter, ...]:
    if not isinstance(raw, list):
        raise InvalidInput(f"{where}: expected a list")
    return tuple(_part(part, f"{where}[{i}]", depth=depth + 1, leaves=leaves) for i, part in enumerate(raw))


def _leaf(raw: Mapping[str, object], where: str) -> Leaf:
    field, op, value = raw["field"], raw["op"], raw["value"]
    if not isinstance(field, str) or not _known(field):
        raise InvalidInput(f"{where}: unknown field {repr(field)[:60]}; the fields are {_FIELDS}")
    if op not in OPS:
        raise InvalidInput(f"{where}: unknown op {repr(op)[:60]}; the ops are {', '.join(OPS)}")
    checked = _CHECKS.get(str(op), _comparable)(field, value, f"{where}: {field[:60]} {op}")
    return Leaf(field, op, checked)  # type: ignore[arg-type]  # op is one of OPS


def _known(field: str) -> bool:
    if field.startswith("metadata."):
        return 0 < len(field) - len("metadata.") <= MAX_TEXT and storable(field)
    return field in (*TEXT_FIELDS, *TIME_FIELDS, "tags")


def _exists(_field: str, value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f'{where}: its "value" is true (the field is there) or false (it is not)')
    return value


def _within(field: str, value: object, where: str) -> tuple[Scalar | datetime, ...]:
    if not isinstance(value, list) or len(value) > MAX_VALUES:
        raise InvalidInput(f"{where}: takes a list of at most {MAX_VALUES} values")
    return tuple(_comparable(field, item, f"{where} value[{i}]") for i, item in enumerate(value))


def _contained(field: str, value: object, where: str) -> str:
    if field in TIME_FIELDS:
        raise InvalidInput(f"{where}: this is a time; compare it with lt, lte, gt, gte or eq")
    return _text(value, where)


def _ordered(field: str, value: object, where: str) -> Scalar | datetime:
    if field == "tags" or isinstance(value, bool):
        raise InvalidInput(f"{where}: tags and booleans have no order; use eq, ne, in or contains")
    return _comparable(field, value, where)


def _comparable(field: str, value: object, where: str) -> Scalar | datetime:
    if field in TIME_FIELDS:
        return parse_moment(_text(value, where), where)
    if field.startswith("metadata.") and isinstance(value, bool | int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"{where}: the number is not finite")
        return value
    return _text(value, where)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: expected text, got {json.dumps(value, default=str)[:40]}")
    if len(value) > MAX_TEXT or not storable(value):
        raise InvalidInput(f"{where}: text must be at most {MAX_TEXT} characters, without NUL or lone surrogates")
    return value


_CHECKS = {
    "exists": _exists,
    "in": _within,
    "contains": _contained,
    "lt": _ordered,
    "lte": _ordered,
    "gt": _ordered,
    "gte": _ordered,
}
