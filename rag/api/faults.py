"""What is wrong with a request, in sentences that name each field as the caller wrote it; no value is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag.wrong_values import words

MOST = 5  # faults that are told at once
MUST = "must be "
OF_A_REQUEST: Mapping[str, str] = {"extra_forbidden": "is no field of this request; leave it out"}
BODY: Mapping[str, str] = {  # where there are no fields yet
    "is missing": "is missing; send a JSON object",
    "must be an object": "must be a JSON object",
}
UNREADABLE = "the body cannot be read as JSON: it must be UTF-8, and no number or nesting in it without end"

Path = tuple[str | int, ...]


def told(errors: Iterable[Mapping[str, Any]], given: object) -> str:
    """One sentence for each thing that FastAPI finds wrong in a request with the body *given*, of the first few."""
    found: dict[Path, list[str]] = {}
    for error in errors:
        path = () if error["type"] == "json_invalid" else _path(error, given)
        found.setdefault(path, []).append(_words(error))
    # of a field that takes several kinds, only what is wrong with the kind that was sent
    inner = [path for path in found if not any(other != path and other[: len(path)] == path for other in found)]
    sentences = [_sentence(path, found[path]) for path in inner[:MOST]]
    return "; ".join(sentences).encode(errors="replace").decode()[:1000]


def _path(error: Mapping[str, Any], given: object) -> Path:
    """Where in the request: the steps that the caller made, without those of our classes."""
    where, *inside = error["loc"]
    if where == "header":
        return tuple(str(step).title() for step in inside)
    if where != "body":
        return tuple(inside)
    path: list[str | int] = []
    for step in inside:
        known: Any = dict(enumerate(given)) if isinstance(given, list) else given
        if isinstance(known, dict) and step in known:
            given = known[step]
            path.append(step)
    return (*path, inside[-1]) if error["type"] == "missing" and inside else tuple(path)


def _words(error: Mapping[str, Any]) -> str:
    kind, facts = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        at = f", at character {error['loc'][1]}" if error["loc"][1:] else ""
        return f"is no JSON: {str(facts['error']).removesuffix(' at')}{at}"
    return OF_A_REQUEST.get(kind) or words(error)


def _sentence(path: Path, words: Sequence[str]) -> str:
    first, *others = dict.fromkeys(words)
    said = ", or ".join([first, *(other.removeprefix(MUST) for other in others)])
    if not path:
        return f"the body {BODY.get(said, said)}"
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"{name}: it {said}"
