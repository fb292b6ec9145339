"""What is wrong with a request, in sentences that name each field as the caller wrote it; no value is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST = 5  # faults that are told at once
MUST = "must be "
WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is no field of this request; leave it out",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "decimal_type": "must be a number",
    "decimal_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} decimal places",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than_equal": "must be {le:g} or less",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be of the form {pattern}",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
}
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
    if kind in WORDS:
        return WORDS[kind].format(**facts)
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")


def _sentence(path: Path, words: Sequence[str]) -> str:
    first, *others = dict.fromkeys(words)
    said = ", or ".join([first, *(other.removeprefix(MUST) for other in others)])
    if not path:
        return f"the body {BODY.get(said, said)}"
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"{name}: it {said}"
