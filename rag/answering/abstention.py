"""Whether the sources support an answer at all."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rag.llm.extractive import Evidence
from rag.values import Passage

# A name that only one thing bears: digits or joiners inside, or all capitals.
_IDENTIFIER = re.compile(r"(?<![\w.])(?=[\w.\-/]*[\d_])[A-Za-z][\w.\-/]*[\w]|\b[A-Z]{3,}[A-Z0-9]*\b")


def support(question: str, evidence: Sequence[Evidence], passages: Sequence[Passage]) -> float:
    """How well the sources support an answer, from 0 to 1: the best sentence's relevance.

    It is 0 when the question names an identifier that no source has: a page about HLY-4031 does not answer HLY-4039.
    """
    if not evidence:
        return 0.0
    known = "\n".join(f"{' '.join(p.chunk.breadcrumb)}\n{p.text}" for p in passages).casefold()
    if any(name.casefold() not in known for name in _IDENTIFIER.findall(question)):
        return 0.0
    return 1 / (1 + math.exp(-evidence[0].score))
