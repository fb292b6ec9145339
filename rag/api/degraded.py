"""Bodies that say why a lesser model answered, or none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from rag.calls import Answer
from rag.errors import Tried


class TriedBody(BaseModel):
    """What became of a chat model that did not answer: how it failed, or why it was `skipped`: not asked.

    `last` is how one failed that is left alone since then.
    """

    target: str
    reason: str
    ms: int
    skipped: bool
    last: str = ""


class DegradedBody(BaseModel):
    """Why a lesser model answered: `reason`, one of those in `tried`, is what kept away the one that is asked first."""

    reason: str
    detail: str
    tried: list[TriedBody]
    retry_after_s: int | None
    resets_at: datetime | None


def degraded(answer: Answer) -> DegradedBody | None:
    """Why a lesser model answered, if one did."""
    why = answer.degraded
    if why is None:
        return None
    return DegradedBody(
        reason=why.reason,
        detail=why.detail,
        tried=tried(why.tried),
        retry_after_s=None if why.retry_after_s is None else math.ceil(why.retry_after_s),
        resets_at=why.resets_at,
    )


def tried(lines: Sequence[Tried]) -> list[TriedBody]:
    """What became of each target that did not answer."""
    return [TriedBody(target=t.target, reason=t.reason, ms=round(t.ms), skipped=t.skipped, last=t.last) for t in lines]
