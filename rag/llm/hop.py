"""A target as one process sees it: where it is, whether it may be asked now, and how much it has to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from rag.llm.breaker import Breaker
from rag.llm.endpoint import Endpoint
from rag.settings import Target


@dataclass(eq=False, slots=True)
class Hop:
    """An endpoint, its breaker, the attempts under way, and how one failed last."""

    endpoint: Endpoint
    breaker: Breaker = field(default_factory=Breaker)
    under_way: int = 0
    last_failure: str = ""

    @property
    def target(self) -> Target:
        """The settings' target."""
        return self.endpoint.target
