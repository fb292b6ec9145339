"""Why nothing was found, where the request is the reason: what it may see, its filters, the phrases it quotes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rag.retrieval.phrases import phrases
from rag.store.engine import TenantTx
from rag.store.passing import Passed, kinds, passed
from rag.telling import shortened
from rag.values import All, Any, Filter, Leaf, Not, Question, Scope

MOST = 16  # conditions that are looked at
MOST_SHOWN = 40  # characters of a value
METADATA = "metadata."
NO_DOCUMENT = "there is no document that you may see"
TOGETHER = "filters: each condition lets documents pass that you may see, all of them together none"
_KINDS = {"string": "text", "number": "a number", "boolean": "true or false", "null": "null"}


async def hints(tx: TenantTx, question: Question, missing: Sequence[str], *, complete: bool) -> tuple[str, ...]:
    """Sentences that say why *question* found nothing; none where it may be for want of time."""
    scope = question.scope
    conditions = list(_conditions(scope.filter))
    everything, whole, *each = await passed(tx, scope, (None, scope.filter, *conditions[:MOST]))
    if everything is not Passed.VALID:
        return (NO_DOCUMENT if everything is Passed.NONE else f"no document that you may see {_then(scope)}",)
    if whole is Passed.OTHER_TIMES:
        return (f"filters: no document that passes them {_then(scope)}",)
    if whole is Passed.VALID:
        return _unheld(question, missing, complete=complete)
    wrong = [condition for condition, passes in zip(conditions, each, strict=False) if passes is Passed.NONE]
    if wrong or len(conditions) > MOST:
        return tuple(dict.fromkeys(await _unpassed(tx, scope, wrong)))
    return (TOGETHER,)


def _then(scope: Scope) -> str:
    return "is valid at as_of" if scope.dated else "is valid today; ask with as_of for another day"


def _conditions(part: Filter | None) -> Iterator[Filter]:
    """The parts that all have to hold."""
    match part:
        case All(parts):
            for inner in parts:
                yield from _conditions(inner)
        case Any() | Not() | Leaf():
            yield part


async def _unpassed(tx: TenantTx, scope: Scope, wrong: Sequence[Filter]) -> list[str]:
    """What is wrong with each of the conditions, which no document passes by itself."""
    parts = [part for condition in wrong for part in _alternatives(condition)][:MOST]
    fields = sorted({part.field for part in parts if isinstance(part, Leaf) and part.field.startswith(METADATA)})
    held = await kinds(tx, scope, [field.removeprefix(METADATA) for field in fields]) if fields else []
    by_field = dict(zip(fields, held, strict=True))
    return [f"filters: {_fault(part, by_field)}" for part in parts]


def _alternatives(part: Filter) -> Iterator[Filter]:
    """Where no document passes an `any`, none passes any of its parts."""
    if isinstance(part, Any) and part.parts:
        for inner in part.parts:
            yield from _alternatives(inner)
    else:
        yield part


def _fault(part: Filter, by_field: dict[str, set[str]]) -> str:
    """Why no document passes; *by_field* has the kinds of values that documents hold in their metadata."""
    if not isinstance(part, Leaf):
        return f"no document that you may see passes the {type(part).__name__.lower()}"
    held = by_field.get(part.field)
    if part.value == ():
        return f"{part.field} in takes a list of values, and this one is empty: no document passes it"
    if part.op == "exists" and not part.value:
        return f"every document that you may see has {part.field}"
    if held == set():
        return f"no document that you may see has {part.field}"
    wanted = {_kind(value) for value in (part.value if isinstance(part.value, tuple) else (part.value,))}
    if held and part.op not in {"exists", "contains"} and not wanted & held:
        return f"{part.field} is {_either(held)} in the documents, and is compared with {_either(wanted)}"
    value = json.dumps(part.value, default=str, ensure_ascii=False)
    return f"no document that you may see passes {part.field} {part.op} {shortened(value, MOST_SHOWN)}"


def _kind(value: object) -> str:
    """What JSON calls it."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _either(kinds: set[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in sorted(kinds))


def _unheld(question: Question, missing: Sequence[str], *, complete: bool) -> tuple[str, ...]:
    """That no chunk has the phrases: a chunk that holds them all is always a hit."""
    quoted = [phrase.text for phrase in phrases(question.text)]
    are_apart = len(quoted) > 1 and not missing and complete
    unheld = quoted if are_apart else missing
    if not unheld:
        return ()
    named = f"phrase{'s' if len(unheld) > 1 else ''} " + " and ".join(f'"{phrase}"' for phrase in unheld)
    where = " together" if are_apart else ""
    kept, advice = "", "ask without the quotation marks"
    if question.scope.filter:
        kept, advice = " and the filters keep", f"{advice} or without the filters"
    return (f"no chunk that you may see{kept} has the {named}{where}, to the letter; {advice}",)
