"""Error bodies of every provider, read into what they have in common and turned into a Failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

import httpx2

from rag.calls import ChatRequest, Usage
from rag.llm.failures import Complaint, Failure, classify
from rag.llm.retry_after import retry_after

MESSAGE_CHARS = 200
SHARED_CHARS = 24  # as many letters of the prompt in a row are a quotation
KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|gsk|xai|key)[-_][\w*.\-]{4,}|\bBearer\s+\S+|\bAIza[\w\-]{8,}|[\w*\-]{32,}")
STATUSES = range(400, 600)

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
    """The failure of an attempt that a provider complained about, in few words and without the key or the prompt."""
    hint = retry_after(headers or httpx2.Headers(), delay=complaint.delay, message=complaint.message)
    number = complaint.status or status
    said = [str(number), *complaint.kinds[:1], _quotable(complaint.message, request, key)]
    asked = "\n".join(turn.text for turn in request.messages)
    return Failure(
        classify(complaint, status, asked=asked),
        " ".join(filter(None, said)),
        retry_after_s=hint and hint.seconds,
        retry_after_guessed=bool(hint and hint.guessed),
        usage=usage,
        status=number,
    )


def _quotable(message: str, request: ChatRequest, key: str) -> str:
    """A short form of *message*; nothing of one that repeats what was asked."""
    line = " ".join(message.split())[: MESSAGE_CHARS * 2]
    asked = " ".join(" ".join(turn.text.split()) for turn in request.messages)
    windows = (line[at : at + SHARED_CHARS] for at in range(len(line) - SHARED_CHARS + 1))
    if any(window in asked for window in windows) or (line and line in asked):
        return ""
    if key:
        line = line.replace(key, "***")
    return KEY_LIKE.sub("***", line)[:MESSAGE_CHARS]


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
