"""Asking every question of a suite."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval.outcome import Outcome, judge
from eval.service import Asker, Body, Corpus, Service, throwaway
from eval.suite import Question, Suite

AT_ONCE = 2  # questions; more would only wait for each other on a small machine
QUESTION_S = 2  # a search and an answer, each reranked, on two cores
CANDIDATES = 100  # all that two legs of 50 can find


@dataclass(frozen=True, slots=True)
class Run:
    """Every question's outcome in suite order, the models that answered, and how long the replies took."""

    outcomes: tuple[Outcome, ...]
    models: tuple[str, ...]
    search_ms: tuple[float, ...]
    query_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    outcome: Outcome
    model: str
    search_ms: float
    query_ms: float


def asker(question: Question) -> Asker:
    """Who asks *question*."""
    return Asker(question.tenant, tuple(sorted(question.groups)))


def corpora(suite: Suite, questions: Iterable[Question]) -> list[Corpus]:
    """The documents that *questions* are about, by tenant."""
    return [Corpus(tenant, suite.corpus / tenant) for tenant in sorted({question.tenant for question in questions})]


def announced(corpora: Iterable[Corpus], questions: int) -> str:
    """A line for who may not expect it: where a local run makes its tenants, and how long it takes."""
    names = ", ".join(throwaway(corpus.tenant) for corpus in corpora)
    minutes = max(1, round(questions * QUESTION_S / 60))
    return (
        f"making {names} in the database of DATABASE_URL, else of RAG_HOME, until the run ends;"
        f" {questions} questions take about {minutes} min after that (--against asks a service that runs)\n"
    )


async def ask_all(service: Service, questions: Sequence[Question], index: str | None = None) -> Run:
    """The run of *questions* against *service*, against the tenants' *index* where one is named."""
    asked: list[_Asked] = []
    for start in range(0, len(questions), AT_ONCE):
        asked += await asyncio.gather(
            *(_ask(service, question, index) for question in questions[start : start + AT_ONCE])
        )
        if len(asked) % 20 == 0:
            sys.stderr.write(f"asked {len(asked)} of {len(questions)} questions\n")
    return Run(
        outcomes=tuple(each.outcome for each in asked),
        models=tuple(sorted({each.model for each in asked if each.model})),
        search_ms=tuple(each.search_ms for each in asked),
        query_ms=tuple(each.query_ms for each in asked),
    )


async def _ask(service: Service, question: Question, index: str | None) -> _Asked:
    who = asker(question)
    scope: Body = question.model_dump(include={"filters", "as_of"}, exclude_none=True) | (
        {"index": index} if index else {}
    )
    ranking: Body = {"top_k": CANDIDATES, "explain": True, "rerank": True}
    search = await service.search(who, {"query": question.question, **scope, **ranking})
    answer = await service.query(who, {"query": question.question, **scope})
    texts = {c.external_id: await service.document_text(who, c.external_id) for c in answer.citations}
    model = f"{answer.provider}/{answer.model}" if answer.provider else ""
    return _Asked(
        judge(question, search, answer, texts), model, search_ms=search.elapsed_ms, query_ms=answer.elapsed_ms
    )
