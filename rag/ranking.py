"""The numbers of a ranking: what each is by default and what it may be, for the service and for a tenant alike."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from rag.errors import InvalidInput
from rag.values import Fusion, Tuning

DEPTH = 50  # of each leg; recall@50 is what the rest can work with
MIN_DEPTH, MAX_DEPTH = 10, 500  # fewer leave the fusion nothing to choose from, more cost milliseconds and help nobody
MAX_WEIGHT = 100.0
MAX_RERANKED = 100


@dataclass(frozen=True, slots=True)
class Ranking:
    """The weights and depth of the ranking, how long a leg may take, and how much the cross-encoder does."""

    rerank_top: int = 50
    rerank_deadline_s: float = 3.0
    rerank_weight: float = 1.0
    fused_weight: float = 2.0
    dense_weight: float = 1.0
    lexical_weight: float = 1.0
    depth: int = DEPTH
    leg_deadline_s: float = 10.0
    fusion: Fusion = "scores"

    def of(self, tuning: Tuning) -> Ranking:
        """The ranking for a tenant that has values of its own."""
        return replace(self, **{name: value for name, value in asdict(tuning).items() if value is not None})


DEFAULT = Ranking()


def check_range(name: str, value: float) -> None:
    """Raise InvalidInput when a weight, or the depth, cannot have the value."""
    if name == "depth":
        if not isinstance(value, int) or not MIN_DEPTH <= value <= MAX_DEPTH:
            raise InvalidInput(f"depth is a whole number from {MIN_DEPTH} to {MAX_DEPTH}, not {value}")
    elif not math.isfinite(value) or not 0 <= value <= MAX_WEIGHT:
        raise InvalidInput(f"{name} is a number from 0 to {MAX_WEIGHT:g}, not {value}")
    elif name == "fused_weight" and value == 0:
        raise InvalidInput("fused_weight is above 0: what the cross-encoder had no time for has no other rank")


def finds_something(dense_weight: float | None, lexical_weight: float | None) -> bool:
    """Whether one leg counts, whatever the service's settings say of a weight that is None."""
    return (dense_weight != 0 or bool(lexical_weight)) and (lexical_weight != 0 or bool(dense_weight))
