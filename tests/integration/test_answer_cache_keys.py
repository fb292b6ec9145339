from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from rag.answering.cache import AnswerCache, Caching
from rag.calls import Call, ChatRequest, Message
from rag.retrieval.filters import parse_filter
from rag.store.engine import Database
from rag.values import Deadline, Facets, Passage, Principal, Question, Retrieval, TenantId
from tests.fakes import embedders
from tests.integration.caching import ASKED, FEES, REFUNDS, ScriptedChat, answerer, ask, settings
from tests.integration.corpus import question, store

ELSEWHERE = TenantId(UUID(int=7))


class Case:
    """A question with its sources, as it reaches the cache."""

    def __init__(self, tenant: TenantId, passages: tuple[Passage, ...], retrieval: Retrieval, caching: Caching) -> None:
        turns = (Message("system", "Be brief."), Message("user", "And fees?"), Message("user", ASKED))
        self.who = Principal(tenant, frozenset({"query"}))
        self.question = question(ASKED)
        self.request = ChatRequest("answer", ASKED, passages, turns, 100)
        self.retrieval = retrieval
        self.caching = caching

    def but(self, **changed: Any) -> Case:
        """The case with one thing changed, wherever that is."""
        for holder in ("who", "request", "question", "caching"):
            value = getattr(self, holder)
            if changed.keys() <= set(value.__dataclass_fields__):
                setattr(self, holder, replace(value, **changed))
                return self
        raise AssertionError(changed)

    def scoped(self, **changed: Any) -> Case:
        return self.but(scope=replace(self.question.scope, **changed))

    def passage(self, **changed: Any) -> Case:
        first, *rest = self.request.passages
        return self.but(passages=(replace(first, **changed), *rest))

    def chunk(self, **changed: Any) -> Case:
        first = self.request.passages[0]
        return self.passage(chunks=(replace(first.chunk, **changed), *first.chunks[1:]))


CHANGES: dict[str, Any] = {
    "tenant": lambda case: case.but(tenant_id=ELSEWHERE),
    "groups": lambda case: case.but(groups=frozenset({"hr"})),
    "question": lambda case: case.but(question="How long does the refund take?"),
    "case": lambda case: case.but(question=ASKED.upper()),
    "filter": lambda case: case.scoped(filter=parse_filter({"field": "lang", "op": "eq", "value": "en"})),
    "as_of": lambda case: case.scoped(dated=True),
    "another as_of": lambda case: case.scoped(dated=True, as_of=datetime(2026, 1, 1, tzinfo=UTC)),
    "index": lambda case: case.scoped(index="next"),
    "top_k": lambda case: case.but(top_k=5),
    "rerank": lambda case: case.but(rerank=False),
    "recall": lambda case: case.but(recall="high"),
    "task": lambda case: case.but(task="rewrite"),
    "max_tokens": lambda case: case.but(max_tokens=101),
    "temperature": lambda case: case.but(temperature=0.5),
    "needs": lambda case: case.but(needs=frozenset({"json"})),
    "tags": lambda case: case.but(tags=frozenset({"personal"})),
    "conversation": lambda case: case.but(
        messages=(case.request.messages[0], Message("user", "And days?"), case.request.messages[2])
    ),
    "rules": lambda case: case.but(messages=(Message("system", "Be long."), *case.request.messages[1:])),
    "no conversation": lambda case: case.but(messages=case.request.messages[::2]),
    "prompt or settings": lambda case: case.but(made_with="otherwise"),
    "model": lambda case: case.but(models={"one": "one-larger"}),
    "text of a source": lambda case: case.passage(text="A refund takes nine days."),
    "place of a source": lambda case: case.passage(start=3),
    "number of a source": lambda case: case.passage(n=9),
    "version of a source": lambda case: case.chunk(version=2),
    "title of a source": lambda case: case.chunk(title="Refunds of 2025"),
    "headings of a source": lambda case: case.chunk(breadcrumb=("Until 2025", "Refunds")),
    "chunk of a source": lambda case: case.chunk(chunk_id=ELSEWHERE),
    "order of sources": lambda case: case.but(passages=case.request.passages[::-1]),
    "a source less": lambda case: case.but(passages=case.request.passages[:1]),
}
assert {"question", "passages"} | {
    name for name in ChatRequest.__dataclass_fields__ if name in {*CHANGES, "messages", "batch"}
} == set(ChatRequest.__dataclass_fields__)  # `batch` says when, not what
# the text is the request's, the scope has changes by other names, and the others are seen in sources and request
assert set(Question.__dataclass_fields__) - {"text", "scope", "expansion", "expansion_state", "tags"} <= CHANGES.keys()


@pytest.fixture
async def case(database: Database, filled: TenantId) -> Case:
    seen = ScriptedChat()
    answer = await ask(answerer(database, seen, settings(answer_cache="off")), filled, ASKED)
    assert len(seen.requests[0].passages) == 2
    return Case(filled, seen.requests[0].passages, answer.retrieval, Caching("made", {"one": "one-large"}, 10**6, 60))


async def cached(database: Database, case: Case) -> bool:
    """Whether an answer is kept for the case; from now on there is one."""
    call = Call(case.who.tenant_id, Deadline.after(5))
    cache = AnswerCache(database, next(iter(embedders().values())), case.caching)
    found = await cache.find(case.who, case.question, case.request, index_version=case.retrieval.index_version)
    await cache.keep(found, found.reply or await ScriptedChat().complete(case.request, call), call)
    return found.reply is not None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_bug_24_an_answer_made_from_anything_else_is_another(database: Database, case: Case, change: Any) -> None:
    same = [await cached(database, case) for _ in range(2)]

    other = await cached(database, change(case))

    assert (same, other) == ([False, True], False)


async def test_bug_24_an_answer_of_the_second_model_is_not_given_as_the_firsts(
    database: Database, filled: TenantId
) -> None:
    fallen_over, asked_again = ScriptedChat("From two. [1]", target="two"), ScriptedChat("From one. [1]")
    chain = settings("one", "two")

    stored = await ask(answerer(database, fallen_over, chain), filled, ASKED)
    again = await ask(answerer(database, asked_again, chain), filled, ASKED)

    assert (stored.cache, stored.model) == ("miss", "two-large")
    assert (again.cache, again.model, again.text) == ("miss", "one-large", "From one. [1]")


async def test_an_answer_from_what_only_the_second_may_read_is_not_looked_up_as_the_firsts(
    database: Database, tenant: TenantId
) -> None:
    await store(database, tenant, [replace(REFUNDS, facets=Facets(tags=("personal", "money"))), FEES])
    chat = ScriptedChat("From two. [1]", target="two")
    answering = answerer(database, chat, settings("one", "two", data_classes=frozenset({"personal"})))

    answers = [await ask(answering, tenant, ASKED) for _ in range(2)]

    assert [answer.cache for answer in answers] == ["miss", "miss"]
    assert [request.tags for request in chat.requests] == [{"personal"}] * 2


@pytest.mark.parametrize(
    "changed",
    [
        {"section_chars": 900},
        {"answer_min_support": 0.3},
        {"rerank_weight": 2.0},
        {"embedder": "http://other/v1?model=m"},
    ],
    ids=str,
)
async def test_bug_24_an_answer_made_with_other_settings_is_another(
    database: Database, filled: TenantId, changed: dict[str, Any]
) -> None:
    chat = ScriptedChat()

    await ask(answerer(database, chat), filled, ASKED)
    other = await ask(answerer(database, chat, settings(**changed)), filled, ASKED)
    as_before = await ask(answerer(database, chat, settings(port=9, answer_concurrency=3)), filled, ASKED)

    assert (other.cache, as_before.cache) == ("miss", "hit")
