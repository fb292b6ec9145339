"""What follows from each way an attempt fails: for the request, for the target, and for whoever asked."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rag import errors
from rag.llm.breaker import Permit
from rag.llm.failures import Failure, Reason
from rag.llm.hop import Hop

Again = Literal["never", "once", "if alone", "after the hint"]
Onward = Literal["never", "always", "to a larger one"]
Verdict = Literal["failure", "blemish", "neutral", "rest", "disable"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether the same target is asked again, whether another is, what the breaker hears, what the caller is told.

    `if alone` is when no other target is free; `after the hint` is that, and only when the provider named a short time.
    """

    again: Again
    onward: Onward
    verdict: Verdict
    error: type[errors.UpstreamError]


RULES: Mapping[Reason, Rule] = {
    "connect": Rule("once", "always", "failure", errors.UpstreamUnavailable),
    "first_content_timeout": Rule("never", "always", "failure", errors.UpstreamTimeout),
    "idle_timeout": Rule("never", "always", "failure", errors.UpstreamTimeout),
    "rate_limited": Rule("after the hint", "always", "rest", errors.UpstreamRateLimited),
    "quota": Rule("never", "always", "disable", errors.ProviderQuota),
    "config": Rule("never", "always", "disable", errors.ProviderConfig),
    "server_error": Rule("once", "always", "failure", errors.UpstreamError),
    "overloaded": Rule("if alone", "always", "failure", errors.UpstreamUnavailable),
    "timeout": Rule("once", "always", "failure", errors.UpstreamTimeout),
    "conflict": Rule("once", "always", "neutral", errors.UpstreamError),
    "rejected": Rule("never", "never", "neutral", errors.UpstreamRejected),
    "context_length": Rule("never", "to a larger one", "neutral", errors.ContextLength),
    # a refusal is an answer: whoever asks the next model shops for a laxer one
    "content_filtered": Rule("never", "never", "neutral", errors.ContentFiltered),
    "empty": Rule("once", "always", "blemish", errors.EmptyCompletion),
    "malformed": Rule("never", "always", "failure", errors.UpstreamError),
    "incomplete": Rule("never", "always", "failure", errors.UpstreamIncomplete),
}
COUNTED: frozenset[Verdict] = frozenset({"failure", "blemish"})  # by the breaker, until it opens
SLOW: frozenset[Reason] = frozenset({"first_content_timeout", "idle_timeout", "timeout"})


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers of failover: how often, how long, how far apart."""

    tries_per_target: int = 2
    tries: int = 4
    targets: int = 3
    silent_times_idle: float = 3.0  # pings without a word: that many idle limits
    least_useful_s: float = 0.25  # an attempt with less time left only costs
    kept_for_sentences_s: float = 1.0  # of the time there is, for the extractive model at the end
    backoff_s: float = 0.25
    backoff_cap_s: float = 4.0
    wait_cap_s: float = 5.0  # the longest Retry-After that is waited for
    rest_cap_s: float = 900.0
    quota_s: float = 900.0  # without credit, when nobody said until when
    config_s: float = 300.0
    no_network_s: float = 1.0


def backoff_s(policy: Policy, attempt: int, *, rng: random.Random) -> float:
    """A wait before the next attempt after *attempt*, counted from 1: full jitter, and never quite nothing."""
    longest = min(policy.backoff_cap_s, policy.backoff_s * 2.0 ** (attempt - 1))
    return max(longest / 50, rng.uniform(0, longest))


def tell(hop: Hop, permit: Permit, failure: Failure, policy: Policy) -> None:
    """Let the breaker of *hop* know how the attempt of *permit* failed."""
    verdict = RULES[failure.reason].verdict
    hint_s = failure.retry_after_s or None  # 0 is no time at all
    if verdict == "rest":
        hop.breaker.rest(None if hint_s is None else min(hint_s, policy.rest_cap_s), failure.reason)
    elif verdict == "disable":
        usual_s = policy.quota_s if failure.reason == "quota" else policy.config_s
        hop.breaker.disable(max(hint_s or 0.0, usual_s), failure.reason)
    if verdict == "failure":
        permit.failure()
    elif verdict == "blemish":
        permit.blemish()
    else:
        permit.neutral()
