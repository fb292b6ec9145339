"""Error bodies of every provider, read into what they have in common and turned into a Failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

import httpx2

from rag.calls import ChatRequest, Usage
from rag.llm.failures import KINDS, SENTENCES, VAGUE_KINDS, Complaint, Failure, classify, letters
from rag.llm.retry_after import retry_after

WORD = re.compile(r"(?=.{1,64}\Z)[a-z]+(?:_[a-z]+)*")
STATUSES = range(400, 600)
TELLING = (  # words of messages that help whoever runs this
    *(word for _, words, _ in SENTENCES for word in words),
    "rate limit", "request too large", "tokens per min", "quota", "billing", "overloaded", "capacity", "permission",
    "location is not supported", "does not exist", "not found", "not valid", "deprecated", "does not support",
    "not supported", "unsupported parameter", "unsupported value", "unrecognized request argument", "unknown name",
    "extra inputs are not permitted", "field required", "invalid json", "max_tokens", "max_completion_tokens",
    "temperature", "stream_options", "is loading", "out of memory", "internal server error",
)  # fmt: skip

Object = Mapping[str, object]


class Complained(Exception):
    """A stream said that it failed."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.kinds)
        self.complaint = complaint


def complaint_in(body: object) -> Complaint | None:
    """What an error body says, in whichever of the known shapes; None where a JSON value is no error."""
    if isinstance(body, list):
        return complaint_in(body[0]) if body else None
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, str) and error:
        return Complaint(message=error)
    if isinstance(error, dict) and error:
        return _read(error)
    if body.get("object") == "error" or body.get("type") == "error" or error:
        return _read(body)
    return None


def complaint_of(body: object) -> Complaint:
    """What the body of a refused request says, be it little."""
    found = complaint_in(body)
    if found is None and isinstance(body, dict):
        return _read({**body, "message": body.get("message") or body.get("detail")})
    return found or Complaint()


def failure_of(
    complaint: Complaint,
    status: int,
    *,
    headers: httpx2.Headers | None = None,
    request: ChatRequest,
    key: str,
    usage: Usage | None = None,
) -> Failure:
    """The failure of an attempt that a provider complained about.

    It tells the complaint in known words only: a message may quote the prompt or the key, whole, in part or altered.
    """
    hint = retry_after(headers or httpx2.Headers(), delay=complaint.delay, message=complaint.message)
    number = complaint.status or status
    asked = "\n".join(turn.text for turn in request.messages)
    return Failure(
        classify(complaint, status, asked=asked),
        " ".join([str(number), *_repeatable(complaint, letters(asked + key))]),
        retry_after_s=hint and hint.seconds,
        retry_after_guessed=bool(hint and hint.guessed),
        usage=usage,
        status=number,
    )


def _repeatable(complaint: Complaint, private: str) -> list[str]:
    """What of a complaint may stand in a log: words that are known, and none that the prompt or key may have given."""
    kinds = [kind for kind in complaint.kinds if WORD.fullmatch(kind)]
    known = [kind for kind in kinds if kind in KINDS or kind in VAGUE_KINDS or letters(kind) not in private]
    message = complaint.message.lower()
    said = [word for word in TELLING if word in message and letters(word) not in private]
    return [*known[:1], *([f"({', '.join(said)})"] if said else [])]


def _read(error: Object) -> Complaint:
    details = _objects(error.get("details"))
    message = error.get("message")
    return Complaint(
        kinds=tuple(dict.fromkeys(kind.lower() for kind in _kinds(error, details))),
        message=message if isinstance(message, str) else "",
        status=next(_statuses(error), None),
        delay=next((d for detail in details if isinstance(d := detail.get("retryDelay"), str)), ""),
    )


def _kinds(error: Object, details: list[Object]) -> Iterator[str]:
    """From the particular to the general."""
    violations = [one for detail in details for one in _objects(detail.get("violations"))]
    if any("PerDay" in str(one.get("quotaId")) for one in violations):
        yield "quota_per_day"
    for detail in details:
        yield from _texts(detail, "error_code", "reason")
    for inner in _objects(error.get("innererror")):
        yield from _texts(inner, "code")
    yield from _texts(error, "code", "type", "status")


def _texts(value: Object, *names: str) -> Iterator[str]:
    yield from (text for name in names if isinstance(text := value.get(name), str) and text)


def _statuses(error: Object) -> Iterator[int]:
    for name in ("code", "status"):
        value = str(error.get(name))
        if value.isascii() and value.isdigit() and int(value[:4]) in STATUSES:
            yield int(value)


def _objects(value: object) -> list[Object]:
    """The JSON objects in a list, or the one that stands alone."""
    found = value if isinstance(value, list) else [value]
    return [cast(Object, one) for one in found if isinstance(one, dict)]
