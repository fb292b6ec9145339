"""Whether the sources support an answer at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rag.analysis import analyse, identifiers
from rag.llm.extractive import Evidence
from rag.values import Passage

# Chosen on the golden suite (decision 0006): a logit alone lets through "paid leave of Paylane employees", which a
# page on payouts answers in form but not in substance; the words it does not cover give it away.
COVERAGE_WEIGHT = 8.0
COVERAGE_EXPECTED = 0.6
SENTENCES = 3  # an answer is made of as many

_ASKING = frozenset(
    "what when how which who whom whose why where do does did can could may must should would shall i my me we our us"  # noqa: SIM905
    " you your he she his her have has had am been being long much many get there any some about from after before"
    " between than more please tell".split()
)


def support(question: str, evidence: Sequence[Evidence], passages: Sequence[Passage]) -> float:
    """How well the sources support an answer, 0 to 1: the best sentence's relevance and the question's words covered.

    It is 0 when the question names an identifier that no source has: a page about HLY-4031 does not answer HLY-4039.
    """
    if not evidence:
        return 0.0
    texts = {p.n: f"{' '.join(p.chunk.breadcrumb)}\n{p.text}" for p in passages}
    known = "\n".join(texts.values()).casefold()
    if any(name not in known for name in identifiers(question)):
        return 0.0
    best = {e.n for e in evidence[:SENTENCES]}
    logit = evidence[0].score + COVERAGE_WEIGHT * (_coverage(question, [texts[n] for n in best]) - COVERAGE_EXPECTED)
    return 1 / (1 + math.exp(-logit))


def _coverage(question: str, texts: Sequence[str]) -> float:
    """The share of the question's content words that the texts have; 1 when it has none."""
    asking = {term for word in _ASKING for term in analyse(word)}
    wanted = set(analyse(question)) - asking
    found = {term for text in texts for term in analyse(text)}
    return len(wanted & found) / len(wanted) if wanted else 1.0
