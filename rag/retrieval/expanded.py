"""A leg that looks for a question twice: alone, and with what was written to find more."""

from __future__ import annotations

from dataclasses import replace

from rag.protocols import Leg, Ordinals
from rag.retrieval.fusion import by_scores
from rag.values import LegResult, Question, TenantId


class ExpandedLeg:
    """What *leg* finds for a question, and where it is expanded, that and what it finds for both texts together.

    Half a score is the question's own: a passage that is beside the point then costs little (decision 0022).
    """

    def __init__(self, leg: Leg) -> None:
        """Ask *leg*, one search after the other: two at once would take a second connection."""
        self._leg = leg

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        """The best *depth* for each text; what one of them has not counts as its last."""
        while True:  # again when the tenant's index was switched meanwhile
            alone = await self._leg(tenant_id, question, depth, within=within)
            if not question.expansion:
                return alone
            more = replace(question, text=f"{question.text}\n{question.expansion}")
            both = await self._leg(tenant_id, more, depth, within=within)
            if both.generation == alone.generation:
                return _merged(alone, both)


def _merged(alone: LegResult, both: LegResult) -> LegResult:
    found = by_scores([alone, both], weights=[1, 1])
    merged = LegResult.of(found, index_version=alone.index_version, generation=alone.generation)
    complete = alone.complete and both.complete
    return replace(merged, floor=0.0, complete=complete, fits=alone.fits, tuning=alone.tuning)
