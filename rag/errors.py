"""Every error the service raises.

RagError
|- CallerError            the request is at fault
|  |- InvalidInput        the input cannot be used as it is
|  |- Unauthenticated     no key, or one that is not valid
|  |- Forbidden           the key lacks the scope
|  |- NotFound            no such thing in this tenant
|  |- Conflict            it contradicts what is stored
|  |- TooLarge            over a size limit
|  `- UnsupportedFormat   a content type or file kind we do not read
|- StoreError             the database refused or is not as it must be
|  |- StoreUnavailable    the database cannot be reached now
|  `- IndexMismatch       the index was made with another embedder, analyser or chunker
|- ModelMissing           model files are not on this machine, or not the ones expected
|- UpstreamError          a model service failed
|- SetupError             settings or machine cannot run the service
`- DeadlineExceeded       the time allowed is over

The classes know nothing of HTTP; api/problems.py maps each to a status.
"""

from __future__ import annotations


class RagError(Exception):
    """The service failed."""

    code = "internal"

    def __init__(self, detail: str | None = None) -> None:
        """Say what happened and what to do; without *detail*, the class's own sentence."""
        self.detail = detail or (type(self).__doc__ or "")
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


class ModelMissing(RagError):
    """A model file is missing; run `rag models pull`."""

    code = "model_missing"


class UpstreamError(RagError):
    """A model service failed."""

    code = "upstream_error"


class SetupError(RagError):
    """The service cannot run with these settings."""

    code = "setup_error"


class DeadlineExceeded(RagError):
    """The time allowed for this request is over."""

    code = "deadline_exceeded"
