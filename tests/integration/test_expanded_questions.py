"""Golden questions of the demo corpus, searched with the passages that a reader of the questions alone wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest_asyncio

from eval.suite import Question as Golden
from eval.suite import load
from rag.answering.expansion import Expander
from rag.calls import Call, ChatRequest, Reply
from rag.errors import UpstreamTimeout
from rag.retrieval.filters import parse_filter, parse_moment
from rag.values import Question, Scope
from tests.fakes import FakeChat
from tests.integration.demo import FIXTURES, Demo, mrr, rank_of, recall

ROWS = [json.loads(row) for row in (FIXTURES / "expansions.jsonl").read_text("utf-8").splitlines()]
WRITTEN = {row["id"]: row["passage"] for row in ROWS}
GOLDEN = {golden.id: golden for golden in load(FIXTURES / "golden.json").questions}
ASKED = [GOLDEN[name] for name in WRITTEN]
TODAY = datetime(2026, 11, 30, tzinfo=UTC)


class Replaying(FakeChat):
    """Answers each golden question with the passage that was written for it."""

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        self.requests.append(request)
        [name] = [golden.id for golden in ASKED if golden.question == request.question]
        return Reply(WRITTEN[name], "fake", "scripted")


@dataclass(frozen=True)
class Ranks:
    """At which rank the gold is of paraphrases and of the others."""

    paraphrases: list[int | None]
    others: list[int | None]


def question(golden: Golden) -> Question:
    as_of = parse_moment(golden.as_of, "as_of") if golden.as_of else TODAY
    scope = Scope(frozenset(golden.groups), as_of, parse_filter(golden.filters))
    return Question(golden.question, scope, top_k=50, rerank=False, recall="high")


@pytest_asyncio.fixture(scope="module")
async def ranks(demo: Demo) -> dict[str, Ranks]:
    """How the questions are found alone, with their passages, and by a service whose model fails."""
    ways = {
        "alone": None,
        "expanded": Expander(Replaying(), always=False),
        "failing": Expander(FakeChat(error=UpstreamTimeout("late")), always=False),
    }
    found = {}
    for way, expanding in ways.items():
        search = demo.retriever(expanding)
        split = Ranks([], [])
        for golden in ASKED:
            passages = [(gold.document, gold.passage) for gold in golden.gold]
            found_now = await search.retrieve(demo.tenants[golden.tenant], question(golden))
            ranked = split.paraphrases if golden.type == "paraphrase" else split.others
            ranked.append(rank_of(passages, found_now))
        found[way] = split
    return found


def test_every_paraphrase_has_a_passage_and_many_other_questions_do() -> None:
    kinds = [golden.type for golden in ASKED]

    assert kinds.count("paraphrase") == sum(golden.type == "paraphrase" for golden in GOLDEN.values())
    assert len(kinds) - kinds.count("paraphrase") >= 40


def test_a_question_in_other_words_than_the_documents_is_found_by_the_passage(ranks: dict[str, Ranks]) -> None:
    alone, expanded = ranks["alone"].paraphrases, ranks["expanded"].paraphrases

    assert recall(alone) < 0.5
    assert recall(expanded) > 0.95
    assert mrr(expanded) > mrr(alone) + 0.4


def test_a_question_in_the_words_of_the_documents_is_found_as_well_as_before(ranks: dict[str, Ranks]) -> None:
    alone, expanded = ranks["alone"].others, ranks["expanded"].others

    assert recall(expanded) >= recall(alone) > 0.9
    assert mrr(expanded) >= mrr(alone)


def test_a_model_that_fails_leaves_the_search_as_it_is(ranks: dict[str, Ranks]) -> None:
    assert ranks["failing"] == ranks["alone"]
