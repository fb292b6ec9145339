"""Which rows a question may see, as one SQL condition that every leg shares."""

from __future__ import annotations

from datetime import datetime
from typing import Any as Any_

from sqlalchemy import (
    ColumnElement,
    Numeric,
    Text,
    and_,
    any_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from rag.store.schema import documents
from rag.values import All, Any, Filter, Leaf, Not, Scope

Condition = ColumnElement[bool]
_D = documents.c


def parameters(scope: Scope) -> dict[str, object]:
    """The values of `visible`'s parameters but the tenant."""
    return {"groups": sorted(scope.groups), "as_of": scope.as_of}


def visible(narrowed: Filter | None) -> Condition:
    """Documents of `tenant_id` that `groups` and the moment `as_of` allow, and the caller's filter keeps."""
    return and_(allowed(), valid(), kept(narrowed))


def allowed() -> Condition:
    """Documents of `tenant_id` that `groups` allow, of any time."""
    groups = bindparam("groups", type_=ARRAY(Text))
    tenant = _D.tenant_id == bindparam("tenant_id", type_=_D.tenant_id.type)
    return and_(tenant, or_(_D.acl == cast([], ARRAY(Text)), _D.acl.op("&&")(groups)))


def valid() -> Condition:
    """What is valid at the moment `as_of`."""
    as_of = bindparam("as_of", type_=_D.valid_from.type)
    return and_(
        or_(_D.valid_from.is_(None), _D.valid_from <= as_of),
        or_(_D.valid_to.is_(None), _D.valid_to > as_of),
    )


def kept(narrowed: Filter | None) -> Condition:
    """What the caller's filter keeps."""
    return true() if narrowed is None else _condition(narrowed)


def _condition(part: Filter) -> Condition:
    match part:
        case All(parts):
            return and_(true(), *map(_condition, parts))
        case Any(parts):
            return or_(false(), *map(_condition, parts))
        case Not(inner):
            return not_(_condition(inner))
        case Leaf():
            # two-valued: a document without the field does not match, so its negation does
            return func.coalesce(_leaf(part), false())


def _leaf(leaf: Leaf) -> Condition:
    if leaf.op == "exists":
        return _present(leaf.field) if leaf.value else not_(_present(leaf.field))
    if leaf.op == "ne":
        return not_(func.coalesce(_leaf(Leaf(leaf.field, "eq", leaf.value)), false()))
    if isinstance(leaf.value, tuple):
        return _one_of(leaf.field, leaf.value)
    if leaf.op == "contains":
        return _contains(leaf.field, str(leaf.value))
    if leaf.field.startswith("metadata."):
        return _compare_metadata(leaf.field.removeprefix("metadata."), leaf.op, leaf.value)
    if leaf.field == "tags":
        return literal(leaf.value) == any_(_D.tags)
    return _compare(_D[leaf.field], leaf.op, leaf.value)


def _one_of(field: str, values: tuple[Any_, ...]) -> Condition:
    """One array for all the values of a kind: a parameter for each would be too many, and slow to compile."""
    if not field.startswith("metadata."):
        column = _D.tags if field == "tags" else _D[field]
        if field == "tags":
            return column.op("&&")(cast(list(values), ARRAY(Text)))
        return column == func.any(cast(list(values), ARRAY(column.type)))
    key = field.removeprefix("metadata.")
    texts = [value for value in values if isinstance(value, str)]
    numbers = [str(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    kind, text = metadata_kind(key), _metadata_text(key)
    return or_(
        and_(kind == "string", text == func.any(cast(texts, ARRAY(Text)))),
        case((kind == "number", cast(text, Numeric))) == func.any(cast(cast(numbers, ARRAY(Text)), ARRAY(Numeric))),
        *(
            _compare_metadata(key, "eq", value)
            for value in {True, False}.intersection(v for v in values if v is True or v is False)
        ),
    )


def metadata_kind(key: str) -> ColumnElement[str]:
    """What JSON calls a document's value under *key* of its metadata; null where it has none."""
    return func.jsonb_typeof(_D.metadata.op("->", return_type=JSONB())(key))


def _present(field: str) -> Condition:
    if field.startswith("metadata."):
        return _D.metadata.op("?", is_comparison=True)(field.removeprefix("metadata."))
    if field == "tags":
        return func.cardinality(_D.tags) > 0
    return _D[field].is_not(None)


def _contains(field: str, value: str) -> Condition:
    if field == "tags":
        return literal(value) == any_(_D.tags)
    column = _metadata_text(field.removeprefix("metadata.")) if field.startswith("metadata.") else _D[field]
    return func.strpos(column, value) > 0


def _metadata_text(key: str) -> ColumnElement[str]:
    return _D.metadata.op("->>")(key)


def _compare_metadata(key: str, op: str, value: object) -> Condition:
    """A value compares with values of its own kind; the case keeps a cast from meeting another kind."""
    kind, text = metadata_kind(key), _metadata_text(key)
    if isinstance(value, bool):
        return and_(kind == "boolean", _compare(text, op, "true" if value else "false"))
    if isinstance(value, int | float):
        number = case((kind == "number", cast(text, Numeric)))
        return _compare(number, op, cast(str(value), Numeric))
    return and_(kind == "string", _compare(text, op, str(value)))


def _compare(column: ColumnElement[Any_], op: str, value: object) -> Condition:
    if isinstance(value, str) and op not in {"eq", "ne"}:
        column = cast(column, Text).collate("C")  # by code point, the same on every server
    wanted = literal(value) if isinstance(value, str | datetime) else value
    comparisons: dict[str, Condition] = {
        "eq": column == wanted,
        "lt": column < wanted,
        "lte": column <= wanted,
        "gt": column > wanted,
        "gte": column >= wanted,
    }
    return comparisons[op]
