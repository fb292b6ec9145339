from __future__ import annotations

import psycopg
import pytest

from rag.retrieval.filters import parse_filter
from rag.store.engine import Database
from rag.values import TenantId
from tests.conftest import MakeTenant
from tests.integration.caching import ASKED, FEES, REFUNDS, ScriptedChat, answerer, ask, kept, settings
from tests.integration.corpus import prepared, question, scope, store

SIMILAR = "Please tell me how long the refund takes."
POLITE = prepared("polite.md", "Please tell me how the refund story is long.")  # near what is asked politely
SEMANTIC = settings(answer_cache="semantic", answer_cache_distance=1.0, answer_cache_margin=0.0)


async def test_a_question_in_other_words_is_answered_by_the_answer_to_the_first(
    database: Database, filled: TenantId
) -> None:
    chat = ScriptedChat()
    answering = answerer(database, chat, SEMANTIC)

    first, second = await ask(answering, filled, ASKED), await ask(answering, filled, SIMILAR)

    assert (first.cache, second.cache, len(chat.requests)) == ("miss", "hit", 1)
    assert (second.text, second.citations, second.usage.output) == (first.text, first.citations, 0)


async def test_without_being_asked_for_no_similar_question_is_looked_for(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat())

    answers = [await ask(answering, filled, asked) for asked in (ASKED, SIMILAR)]

    assert [answer.cache for answer in answers] == ["miss", "miss"]
    query = "SELECT question, embedding FROM answer_cache WHERE tenant_id = %s"
    assert owner.execute(query, (filled,)).fetchall() == [(None, None)] * 2


@pytest.mark.parametrize(
    "asked",
    ["How long does a refund not take?", "How long does a payout take?", "How long does a refund take in 2025?"],
)
async def test_a_question_that_says_something_else_is_not_answered_by_it_however_near(
    database: Database, filled: TenantId, asked: str
) -> None:
    answering = answerer(database, ScriptedChat(), SEMANTIC)

    answers = [await ask(answering, filled, text) for text in (ASKED, asked)]

    assert [answer.cache for answer in answers] == ["miss", "miss"]


async def test_a_similar_question_in_another_scope_is_not_answered_by_it(
    database: Database, filled: TenantId, make_tenant: MakeTenant
) -> None:
    other = await make_tenant()
    await store(database, other, [REFUNDS, FEES])
    answering = answerer(database, ScriptedChat(), SEMANTIC)
    await ask(answering, filled, ASKED)
    english = scope(parse_filter({"field": "lang", "op": "eq", "value": "en"}))

    elsewhere = [
        await ask(answering, other, SIMILAR),
        await ask(answering, filled, SIMILAR, groups=("hr",)),
        await ask(answering, filled, SIMILAR, max_tokens=99),
        await ask(answering, filled, question(SIMILAR, english)),
        await ask(answering, filled, question(SIMILAR, top_k=5)),
        await ask(answerer(database, ScriptedChat(), settings("two", **_semantic())), filled, SIMILAR),
    ]

    assert [answer.cache for answer in elsewhere] == ["miss"] * 6


async def test_a_similar_question_is_not_answered_by_it_once_any_document_has_changed(
    database: Database, filled: TenantId, owner: psycopg.Connection
) -> None:
    answering = answerer(database, ScriptedChat(), SEMANTIC)
    await ask(answering, filled, ASKED)

    await store(database, filled, [prepared("pumps.md", "Prime the pump.")])

    assert kept(owner, filled) == 1
    assert (await ask(answering, filled, SIMILAR)).cache == "miss"


async def test_a_mark_is_carried_over_to_the_number_its_source_has_now(database: Database, filled: TenantId) -> None:
    await store(database, filled, [POLITE])
    answering = answerer(database, ScriptedChat(), SEMANTIC)

    first, second = await ask(answering, filled, ASKED), await ask(answering, filled, SIMILAR)

    assert (first.text, second.text, second.cache) == ("It takes five days. [1]", "It takes five days. [2]", "hit")
    assert [(c.n, c.external_id) for c in first.citations] == [(1, "refunds.md")]
    assert [(c.n, c.external_id) for c in second.citations] == [(2, "refunds.md")]


async def test_an_answer_whose_source_is_not_found_this_time_is_not_given(database: Database, filled: TenantId) -> None:
    await store(database, filled, [POLITE])
    chat = ScriptedChat()
    answering = answerer(database, chat, SEMANTIC)

    answers = [await ask(answering, filled, question(asked, top_k=1)) for asked in (ASKED, SIMILAR)]

    found = [passage.chunk.external_id for request in chat.requests for passage in request.passages]
    assert found == ["refunds.md", "polite.md"]
    assert [answer.cache for answer in answers] == ["miss", "miss"]


def _semantic() -> dict[str, object]:
    return {"answer_cache": "semantic", "answer_cache_distance": 1.0, "answer_cache_margin": 0.0}
