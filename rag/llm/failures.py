"""Every way an attempt at a chat model fails, and which one an error of a provider means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from rag.calls import Usage

Reason = Literal[
    "connect",  # nothing was sent: refused, no such host, TLS
    "first_content_timeout",  # no first word in time
    "idle_timeout",  # a gap between words, too long
    "rate_limited",  # slow down
    "quota",  # no money, credit or quota left
    "config",  # key, permission, region, model or address
    "server_error",  # also without a status: it took the request and hung up
    "overloaded",
    "timeout",  # the provider's own
    "conflict",
    "rejected",  # the request is not understood
    "context_length",  # the request is too long
    "content_filtered",  # a refusal
    "empty",  # whole, without a word
    "malformed",  # not the protocol
    "incomplete",  # broke off before the end
]


class Failure(Exception):
    """An attempt failed.

    `retry_after_s` is how long the provider asks to be left alone: finite, 0 for "whenever you like". Where
    `retry_after_guessed`, it was read from a sentence: good to avoid the target for so long, not to wait for it.
    `usage` is what the provider said of the tokens until then, `status` the HTTP status, where there was one.
    """

    def __init__(
        self,
        reason: Reason,
        detail: str = "",
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        status: int | None = None,
        retry_after_guessed: bool = False,
    ) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: Reason = reason
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.usage = usage
        self.status = status
        self.retry_after_guessed = retry_after_guessed


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an error body says: its codes and types in small letters, the most telling first, and the rest it may have.

    `delay` is Gemini's `retryDelay`.
    """

    kinds: tuple[str, ...] = ()
    message: str = ""
    status: int | None = None
    delay: str = ""


def classify(complaint: Complaint, status: int, *, asked: str = "") -> Reason:
    """The reason an error body stands for: by its codes and types, then by its status, the response's *status* last.

    A body in a stream comes with status 200 and may hold a status of its own. An error that says nothing is the
    server's. *asked* is the prompt, which a message may repeat: its words cost no target its place.
    """
    known = next((KINDS[kind] for kind in complaint.kinds if kind in KINDS), None)
    if known == "rate_limited" and _never_fits(complaint.message):
        return "context_length"
    if known:
        return known
    number = complaint.status or status
    by_text = _by_text(complaint.message, number, asked)
    if by_text:
        return by_text
    if number >= HTTPStatus.MULTIPLE_CHOICES:
        return by_status(number)
    return next((VAGUE_KINDS[kind] for kind in complaint.kinds if kind in VAGUE_KINDS), "server_error")


def by_status(status: int) -> Reason:
    """The reason a status alone stands for, from 300 on."""
    if status in STATUSES:
        return STATUSES[status]
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "server_error"
    return "rejected" if status >= HTTPStatus.BAD_REQUEST else "config"  # a redirect: the address is not the right one


def letters(text: str) -> str:
    """The letters and digits alone, small and in one form, by which a quotation is known however it is set."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _by_text(message: str, status: int, asked: str) -> Reason | None:
    """What only the sentence tells; each with the statuses it comes with, since words alone are found anywhere."""
    message = message.lower()
    for statuses, words, reason in SENTENCES:
        said = [word for word in words if word in message] if status in statuses else []
        if said and reason in OF_THE_TARGET:  # for every request, so that no single one may say it
            prompt = letters(asked)
            said = [word for word in said if letters(word) not in prompt]
        if said:
            return reason
    return None


def _never_fits(message: str) -> bool:
    """Whether a request is larger than all that may be sent in a minute: to wait does not help it."""
    found = TOO_LARGE.search(message)
    return bool(found and int(found["requested"].replace(",", "")) > int(found["limit"].replace(",", "")))


KINDS: Mapping[str, Reason] = {
    # OpenAI and what is compatible with it
    "invalid_api_key": "config",
    "unsupported_country_region_territory": "config",
    "model_not_found": "config",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",  # llama.cpp
    "content_policy_violation": "content_filtered",
    "invalid_prompt": "content_filtered",
    "content_filter": "content_filtered",
    "responsibleaipolicyviolation": "content_filtered",
    "insufficient_quota": "quota",
    "credit_balance_exhausted": "quota",
    "organization_spend_limit_exceeded": "quota",
    "project_spend_limit_exceeded": "quota",
    "organization_usage_limit_exceeded": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "rate_limit_exceeded": "rate_limited",
    "slow_down": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "server_is_overloaded": "overloaded",
    "service_unavailable_error": "overloaded",
    # Anthropic
    "enforced_spend_limit_reached": "quota",
    "authentication_error": "config",
    "permission_error": "config",
    "not_found_error": "config",
    "billing_error": "quota",
    "request_too_large": "context_length",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "conflict_error": "conflict",
    # Gemini
    "quota_per_day": "quota",  # made of QuotaFailure
    "api_key_invalid": "config",
    "failed_precondition": "config",  # region, or billing that is not set up
    "unauthenticated": "config",
    "permission_denied": "config",
    "not_found": "config",
    "resource_exhausted": "rate_limited",
    "unavailable": "overloaded",
    "deadline_exceeded": "timeout",
    "aborted": "conflict",
}

VAGUE_KINDS: Mapping[str, Reason] = {  # said of several things: heard when no status tells
    "invalid_request_error": "rejected",
    "invalid_argument": "rejected",
    "badrequesterror": "rejected",  # vLLM
}

STATUSES: Mapping[int, Reason] = {
    401: "config",
    402: "quota",
    403: "config",
    404: "config",
    405: "config",
    408: "timeout",
    409: "conflict",
    410: "config",
    413: "context_length",
    429: "rate_limited",
    451: "config",
    503: "overloaded",
    504: "timeout",
    524: "timeout",  # Cloudflare's
    529: "overloaded",
}

OF_THE_TARGET: frozenset[Reason] = frozenset({"quota", "config"})
TOO_LARGE = re.compile(
    r"\blimit:? (?P<limit>\d[\d,]{0,12}),(?: used:? [\d,]+,)? requested:? (?P<requested>\d[\d,]{0,12})",
    re.ASCII | re.IGNORECASE,
)
SENTENCES: tuple[tuple[frozenset[int], tuple[str, ...], Reason], ...] = (
    (frozenset({400}), ("credit balance is too low", "usage limit", "spend limit"), "quota"),
    (frozenset({429}), ("credits are depleted",), "quota"),
    (
        frozenset({400, 413}),
        ("prompt is too long", "context length", "context window", "input token count"),
        "context_length",
    ),
    (frozenset({200, 400}), ("content filtering policy",), "content_filtered"),  # Anthropic, also in a stream
    (frozenset({400}), ("api key",), "config"),
    (frozenset({403}), ("flagged",), "content_filtered"),  # OpenRouter's moderation
)
