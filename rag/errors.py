"""Every error the service raises.

RagError
|- CallerError            the request is at fault
|  |- InvalidInput        the input cannot be used as it is
|  |- Unauthenticated     no key, or one that is not valid
|  |- Forbidden           the key lacks the scope
|  |- NotFound            no such thing in this tenant
|  |- Conflict            it contradicts what is stored
|  |  |- PriceUnknown     the tenant has a budget of money, and nobody knows what the model costs
|  |  `- NotAllowed       what is to be read is of a class that no chat model may read
|  |- TooLarge            over a size limit
|  `- UnsupportedFormat   a content type or file kind we do not read
|- StoreError             the database refused or is not as it must be
|  |- StoreUnavailable    the database cannot be reached now
|  |- IndexMismatch       the index was made with another embedder, analyser or chunker
|  `- IndexFull           the tenant has no numbers left for new chunks
|- ModelMissing           model files are not on this machine, or not the ones expected
|- UpstreamError          a model service failed
|  |- UpstreamUnavailable  none can be reached now
|  |  |- NoNetwork         not even a connection to any of them
|  |  `- ProviderQuota     the account there has no credit or quota left
|  |- UpstreamTimeout      it did not answer in time
|  |- UpstreamRateLimited  it takes no more requests now
|  |- ProviderConfig       it refuses our key, model or region
|  |- UpstreamRejected     it cannot read our request
|  |- ContextLength        the question and its sources are longer than any model reads
|  |- ContentFiltered      it refuses to answer this
|  |- EmptyCompletion      it answered nothing
|  `- UpstreamIncomplete   its answer broke off after the first words
|- Busy                   too many answers are being made
|- BudgetExceeded         the tenant has used up its budget of this period
|- BalanceEmpty           the tenant has used up what was paid for
|- BudgetTooSmall         one call may use more than the tenant's budget has in a whole period
|- SetupError             settings or machine cannot run the service
`- DeadlineExceeded       the time allowed is over

The classes know nothing of HTTP; api/problems.py maps each to a status.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Tried(NamedTuple):
    """What became of a target that did not answer: the class of its failure, or why it was `skipped`: not asked.

    `last` is, of one that is left alone, how it failed before.
    """

    target: str
    reason: str
    ms: float = 0.0
    skipped: bool = False
    last: str = ""


class RagError(Exception):
    """The service failed."""

    code = "internal"

    def __init__(
        self,
        detail: str | None = None,
        *,
        retry_after_s: float | None = None,
        resets_at: datetime | None = None,
        tried: tuple[Tried, ...] = (),
    ) -> None:
        """Say what happened and what to do; without *detail*, the class's own sentence.

        *resets_at* is when what is used up is renewed, *tried* what became of the chat models.
        """
        self.detail = detail or (type(self).__doc__ or "")
        self.retry_after_s = retry_after_s
        self.resets_at = resets_at
        self.tried = tried
        super().__init__(self.detail)


class CallerError(RagError):
    """The request cannot be served as it is."""

    code = "bad_request"


class InvalidInput(CallerError):
    """The input is not valid."""

    code = "invalid_input"


class Unauthenticated(CallerError):
    """Send a valid key as `Authorization: Bearer <key>`; `rag key create` makes one."""

    code = "unauthenticated"


class Forbidden(CallerError):
    """This key lacks the scope for that."""

    code = "forbidden"


class NotFound(CallerError):
    """There is nothing by that name in this tenant."""

    code = "not_found"


class Conflict(CallerError):
    """That contradicts what is stored."""

    code = "conflict"


class PriceUnknown(Conflict):
    """The tenant has a budget of money, and nobody knows what the model costs; set its price in RAG_PRICES."""

    code = "price_unknown"


class NotAllowed(Conflict):
    """The sources or earlier answers are of a class that no chat model may read; see `allows` in RAG_CHAT_TARGETS."""

    code = "not_allowed"


class TooLarge(CallerError):
    """That is over the size limit."""

    code = "too_large"


class UnsupportedFormat(CallerError):
    """This format is not read."""

    code = "unsupported_format"


class StoreError(RagError):
    """The database refused the operation."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached; try again shortly."""

    code = "store_unavailable"


class IndexMismatch(StoreError):
    """The tenant's index was made with another embedder, analyser or chunker; run `rag reindex`."""

    code = "index_mismatch"


class IndexFull(StoreError):
    """The tenant's numbers for chunks are used up; run `rag tenant compact`."""

    code = "index_full"


class ModelMissing(RagError):
    """A model file is missing; run `rag models pull`."""

    code = "model_missing"


class UpstreamError(RagError):
    """A model service failed; try again, and if that goes on, look at what `tried` says of it."""

    code = "upstream_error"


class UpstreamUnavailable(UpstreamError):
    """No chat model answers now; try again shortly."""

    code = "upstream_unavailable"


class NoNetwork(UpstreamUnavailable):
    """No connection to any chat model can be made; look at the network of this machine."""

    code = "network"


class ProviderQuota(UpstreamUnavailable):
    """The account at the provider of the chat model has no credit or quota left; top it up, or name another target."""

    code = "provider_quota"


class UpstreamTimeout(UpstreamError):
    """The chat model did not answer in time; try again, or give its target longer limits."""

    code = "upstream_timeout"


class UpstreamRateLimited(UpstreamError):
    """The chat model takes no more requests now; try again when Retry-After is over."""

    code = "upstream_rate_limited"


class ProviderConfig(UpstreamError):
    """The provider of the chat model refuses our key, model or region; `rag doctor` tells which."""

    code = "provider_config"


class UpstreamRejected(UpstreamError):
    """The provider of the chat model cannot read our request; check the target's dialect, model and quirks."""

    code = "upstream_rejected"


class ContextLength(UpstreamError):
    """This is longer than any chat model that may read it; lower max_tokens, or shorten the conversation."""

    code = "context_length"


class ContentFiltered(UpstreamError):
    """The provider of the chat model refuses to answer this, and no other is asked; put it in other words."""

    code = "content_filtered"


class EmptyCompletion(UpstreamError):
    """The chat model answered nothing; ask again."""

    code = "empty_completion"


class UpstreamIncomplete(UpstreamError):
    """The answer broke off: what was sent of it is not the whole; ask again."""

    code = "upstream_incomplete"


class Busy(RagError):
    """Too many answers are being made; try again shortly."""

    code = "busy"


class BudgetExceeded(RagError):
    """The tenant has used up its budget of this period."""

    code = "budget_exceeded"


class BalanceEmpty(RagError):
    """The tenant has used up what was paid for."""

    code = "balance_empty"


class BudgetTooSmall(RagError):
    """One call may use more than the tenant's budget has in a whole period; lower max_tokens or raise the budget."""

    code = "budget_too_small"


class SetupError(RagError):
    """The service cannot run with these settings."""

    code = "setup_error"


class DeadlineExceeded(RagError):
    """The time allowed for this request is over."""

    code = "deadline_exceeded"
