"""Why nothing was found, where the request is the reason: what it may see, its filters, the phrases it quotes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from rag.retrieval.phrases import phrases
from rag.store.engine import TenantTx
from rag.store.passing import any_document, kinds_of
from rag.values import All, Any, Filter, Leaf, Not, Question, Scope

MOST = 16  # conditions looked at, each with a query of its own
NO_DOCUMENT = "there is no document that you may see"
TOGETHER = "filters: each condition lets documents pass that you may see, all of them together none"
_KINDS = {"string": "text", "number": "a number", "boolean": "true or false", "null": "null"}


async def hints(tx: TenantTx, question: Question, missing: Sequence[str], *, complete: bool) -> tuple[str, ...]:
    """Sentences that say why *question* found nothing; none where it may be for want of time."""
    scope = question.scope
    if not await any_document(tx, replace(scope, filter=None)):
        return (NO_DOCUMENT,)
    if scope.filter is not None and not await any_document(tx, scope):
        wrong = [hint async for hint in _unpassed(tx, scope, scope.filter)]
        return tuple(dict.fromkeys(wrong)) or (TOGETHER,)
    return tuple(_unheld(question.text, missing, complete=complete))


async def _unpassed(tx: TenantTx, scope: Scope, asked: Filter) -> AsyncIterator[str]:
    """What is wrong with each condition that no document passes by itself."""
    for leaf in islice(_leaves(asked), MOST):
        if not await any_document(tx, replace(scope, filter=leaf)):
            yield f"filters: {await _wrong(tx, scope, leaf)}"


async def _wrong(tx: TenantTx, scope: Scope, leaf: Leaf) -> str:
    """Why no document passes the condition: the values of metadata may be missing, or of another kind."""
    if leaf.field.startswith("metadata."):
        found = await kinds_of(tx, replace(scope, filter=None), leaf.field.removeprefix("metadata."))
        wanted = {_kind(value) for value in (leaf.value if isinstance(leaf.value, tuple) else (leaf.value,))}
        if not found:
            return f"no document that you may see has {leaf.field}"
        if leaf.op != "exists" and not wanted & found:
            return f"{leaf.field} is {_either(found)} in the documents, and is compared with {_either(wanted)}"
    return f"no document that you may see passes {leaf.field} {leaf.op}"


def _kind(value: object) -> str:
    """What JSON calls it."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _either(kinds: set[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in sorted(kinds))


def _leaves(part: Filter) -> Iterator[Leaf]:
    """The conditions that have to hold; those under a `not` have not to."""
    match part:
        case All(parts) | Any(parts):
            for inner in parts:
                yield from _leaves(inner)
        case Leaf():
            yield part
        case Not():
            return


def _unheld(query: str, missing: Sequence[str], *, complete: bool) -> Iterator[str]:
    """That no chunk has the phrases: a chunk that holds them all is always a hit."""
    quoted = [phrase.text for phrase in phrases(query)]
    are_apart = len(quoted) > 1 and not missing and complete
    if unheld := quoted if are_apart else missing:
        named = f"phrase{'s' if len(unheld) > 1 else ''} " + " and ".join(f'"{phrase}"' for phrase in unheld)
        where = " together" if are_apart else ""
        seen = "no chunk that you may see and the filters keep"
        yield f"{seen} has the {named}{where}, to the letter; ask without the quotation marks"
