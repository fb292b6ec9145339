"""Why nothing was found, where the request is the reason: what it may see, its filters, the phrases it quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from rag.retrieval.phrases import phrases
from rag.store.engine import TenantTx
from rag.store.passing import kinds, passed
from rag.values import All, Any, Filter, Leaf, Question, Scope

MOST = 16  # conditions looked at
METADATA = "metadata."
NO_DOCUMENT = "there is no document that you may see"
TOGETHER = "filters: each condition lets documents pass that you may see, all of them together none"
_KINDS = {"string": "text", "number": "a number", "boolean": "true or false", "null": "null"}


async def hints(tx: TenantTx, question: Question, missing: Sequence[str], *, complete: bool) -> tuple[str, ...]:
    """Sentences that say why *question* found nothing; none where it may be for want of time."""
    scope = question.scope
    leaves = tuple(islice(_leaves(scope.filter), MOST))
    anything, whole, *each = await passed(tx, scope, (None, scope.filter, *leaves))
    if not anything:
        return (NO_DOCUMENT,)
    if whole:
        return tuple(_unheld(question.text, missing, complete=complete))
    wrong = [leaf for leaf, passes in zip(leaves, each, strict=True) if not passes]
    return tuple(dict.fromkeys(await _unpassed(tx, scope, wrong))) or (TOGETHER,)


async def _unpassed(tx: TenantTx, scope: Scope, wrong: Sequence[Leaf]) -> list[str]:
    """What is wrong with each of the conditions, which no document passes by itself."""
    fields = sorted({leaf.field for leaf in wrong if leaf.field.startswith(METADATA)})
    held = await kinds(tx, scope, [field.removeprefix(METADATA) for field in fields]) if fields else []
    by_field = dict(zip(fields, held, strict=True))
    return [f"filters: {_fault(leaf, by_field.get(leaf.field))}" for leaf in wrong]


def _fault(leaf: Leaf, held: set[str] | None) -> str:
    """Why no document passes, where documents hold values of the kinds *held* in that place of their metadata."""
    wanted = {_kind(value) for value in (leaf.value if isinstance(leaf.value, tuple) else (leaf.value,))}
    if held == set():
        return f"no document that you may see has {leaf.field}"
    if held and leaf.op != "exists" and not wanted & held:
        return f"{leaf.field} is {_either(held)} in the documents, and is compared with {_either(wanted)}"
    return f"no document that you may see passes {leaf.field} {leaf.op}"


def _kind(value: object) -> str:
    """What JSON calls it."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _either(kinds: set[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in sorted(kinds))


def _leaves(part: Filter | None) -> Iterator[Leaf]:
    """The conditions that have to hold; those under a `not` have not to."""
    match part:
        case All(parts) | Any(parts):
            for inner in parts:
                yield from _leaves(inner)
        case Leaf():
            yield part


def _unheld(query: str, missing: Sequence[str], *, complete: bool) -> Iterator[str]:
    """That no chunk has the phrases: a chunk that holds them all is always a hit."""
    quoted = [phrase.text for phrase in phrases(query)]
    are_apart = len(quoted) > 1 and not missing and complete
    if unheld := quoted if are_apart else missing:
        named = f"phrase{'s' if len(unheld) > 1 else ''} " + " and ".join(f'"{phrase}"' for phrase in unheld)
        where = " together" if are_apart else ""
        seen = "no chunk that you may see and the filters keep"
        yield f"{seen} has the {named}{where}, to the letter; ask without the quotation marks"
