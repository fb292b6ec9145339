"""The chat model without a network: the sentences of the sources that best answer, each marked with its source."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from rag.analysis import identifiers
from rag.calls import NO_TOKENS, Attempt, Call, ChatRequest, Reply
from rag.marks import literal
from rag.protocols import Reranker
from rag.sentences import sentences
from rag.settings import EXTRACTIVE
from rag.values import Deadline, Passage

MAX_SENTENCES = 3
MARGIN = 2.0  # logits below the best sentence at which another still says something about the question
CHARS_PER_TOKEN = 4  # of English; the budget is the caller's, not a model's
MIN_CHARS = 12  # shorter pieces are list marks and stray headings


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage and the cross-encoder's logit for it; `start` counts in the passage's text."""

    n: int
    start: int
    text: str
    score: float


async def find_evidence(
    reranker: Reranker, question: str, passages: Sequence[Passage], *, deadline: Deadline
) -> list[Evidence]:
    """The sentences of *passages*, best first, as far as the deadline lets them be scored."""
    found = [
        (passage, start, text)
        for passage in passages
        for start, text in sentences(passage.text)
        if len(text) >= MIN_CHARS
    ]
    scores = await reranker.score(question, [_in_context(passage, text) for passage, _, text in found], deadline)
    evidence = [
        Evidence(passage.n, start, text, score)
        for (passage, start, text), score in zip(found, scores, strict=True)
        if isinstance(score, float)
    ]
    return sorted(evidence, key=lambda e: (-e.score, e.n, e.start))


class ExtractiveModel:
    """Answers only in the sources' own words, so it can be wrong about relevance but never about a quote."""

    def __init__(self, reranker: Reranker) -> None:
        """Choose sentences by *reranker*."""
        self._reranker = reranker

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """Up to three sentences in the order of the sources; empty when there are none."""
        started = time.perf_counter()
        evidence = await find_evidence(self._reranker, request.question, request.passages, deadline=call.deadline)
        chosen = _chosen(request, evidence)
        spent_ms = (time.perf_counter() - started) * 1000
        call.attempts.append(
            Attempt(
                number=len(call.attempts) + 1,
                target=EXTRACTIVE,
                model=self._reranker.name,
                outcome="answered",
                usage=NO_TOKENS,
                first_content_ms=spent_ms,
                total_ms=spent_ms,
            )
        )
        return Reply(
            text=" ".join(f"{literal(e.text)} [{e.n}]" for e in chosen),
            target=EXTRACTIVE,
            model=self._reranker.name,
            usage=NO_TOKENS,
            spans=tuple((e.n, e.start, e.start + len(e.text)) for e in chosen),
        )

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """The reply in pieces of a word, then whole."""
        reply = await self.complete(request, call)
        for n, word in enumerate(reply.text.split(" ")):
            yield word if n == 0 else " " + word
        yield reply


def _chosen(request: ChatRequest, evidence: Sequence[Evidence]) -> list[Evidence]:
    chosen: list[Evidence] = []
    budget = request.max_tokens * CHARS_PER_TOKEN
    asked = set(identifiers(request.question))
    named = len(asked & set(identifiers(evidence[0].text))) if evidence else 0
    for e in evidence:
        # beside the row of HLY-4031, that of HLY-4032 looks like an answer
        if len(asked & set(identifiers(e.text))) < named:
            continue
        if len(chosen) == MAX_SENTENCES or (chosen and e.score < evidence[0].score - MARGIN):
            break
        if any(e.text == other.text for other in chosen) or (chosen and len(e.text) > budget):
            continue
        chosen.append(e)
        budget -= len(e.text)
    return sorted(chosen, key=lambda e: (e.n, e.start))


def _in_context(passage: Passage, text: str) -> str:
    """A sentence alone has lost its subject; the headings above it usually name it."""
    return f"{' > '.join(passage.chunk.breadcrumb)}\n{text}"
