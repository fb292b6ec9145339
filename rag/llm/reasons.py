"""Why a target did not answer, in words that a developer can act on and that no provider has said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rag.errors import Tried
from rag.llm.hop import Hop

Skip = Literal[
    "breaker_open",  # it failed too often
    "rate_limited",  # as it said itself, not long ago; so are the next two
    "quota",
    "config",
    "network",  # nothing could be reached, a moment ago
    "data_class",
    "capability",
    "context_length",
    "overflow",  # a local one, passed by
    "attempts",  # others used up what one request may make
    "deadline",  # or the time
    "budget",  # the tenant's
]
SAID: Mapping[str, str] = {  # of every Reason and Skip
    "connect": "there is no connection to it; check its url, and that it runs",
    "first_content_timeout": "it began no answer in time (first_content_timeout_s)",
    "idle_timeout": "it fell silent in the middle (idle_timeout_s)",
    "rate_limited": "it takes no more requests now",
    "quota": "its account has no credit or quota left",
    "config": "it refuses our key, model or region; `rag doctor` tells which",
    "server_error": "it failed by its own fault",
    "overloaded": "it is overloaded",
    "timeout": "it gave up, as it took too long",
    "conflict": "it was in conflict with another request",
    "rejected": "it cannot read our request; check its dialect and quirks",
    "context_length": "the question and its sources are longer than it reads (context_tokens)",
    "content_filtered": "it refuses to answer this",
    "empty": "it answered nothing",
    "malformed": "what it sends cannot be read; check its dialect and url",
    "incomplete": "its answer broke off",
    "breaker_open": "it failed too often and is left alone for some seconds",
    "network": "no chat model could be reached; look at the network of this machine",
    "data_class": "it may not read what is in these sources (allows)",
    "capability": "it cannot do what is asked (can)",
    "overflow": "it has enough to do (overflow_depth, overflow_tokens)",
    "attempts": "as many others were asked as one request may ask",
    "deadline": "the time for the request was over (RAG_REQUEST_TIMEOUT_S)",
    "budget": "the tenant's budget is used up",
}


def skipped(hop: Hop, why: Skip) -> Tried:
    """The line of a target that was not asked."""
    return Tried(hop.target.name, why, skipped=True)


def away(hop: Hop) -> Tried:
    """The line of a target that its breaker keeps out."""
    if hop.breaker.why in SAID:
        return Tried(hop.target.name, hop.breaker.why, skipped=True)
    return Tried(hop.target.name, "breaker_open", skipped=True, last=hop.last_failure)


def sentence(tried: Tried) -> str:
    """What became of the target."""
    last = f"; its last failure: {SAID[tried.last]}" if tried.last else ""
    return f"{tried.target}: {SAID[tried.reason]}{last}"
