"""A purse for second attempts: while much fails, few are made, so that retries do not add to the load."""

from __future__ import annotations

CAPACITY = 100  # the AWS SDKs' bucket, of a fifth of their size: one process asks less than a fleet
COST = 5
COST_AFTER_TIMEOUT = 10  # what was slow is slow for others too
EARNED = 1


class RetryPurse:
    """Tokens that retries cost and first attempts that succeed earn."""

    def __init__(self, tokens: int = CAPACITY) -> None:
        """Begin full."""
        self._capacity = tokens
        self.tokens = tokens

    def take(self, *, after_timeout: bool) -> bool:
        """Whether a retry may be made; it is paid for then."""
        cost = COST_AFTER_TIMEOUT if after_timeout else COST
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True

    def earn(self) -> None:
        """Count a first attempt that succeeded."""
        self.tokens = min(self._capacity, self.tokens + EARNED)
