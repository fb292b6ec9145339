from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag.calls import Call, ChatRequest, Reply
from rag.llm.extractive import ExtractiveModel, find_evidence
from rag.values import Deadline, Passage, tenant_id

Make = Callable[..., Passage]
Reranker = Callable[[Mapping[str, float]], Any]

DAYS, FEES = "Refunds take five days.", "All fees are kept."
CARDS, BANKS = "Cards are refunded first.", "Banks come next."


def asked(question: str, passages: tuple[Passage, ...], max_tokens: int) -> ChatRequest:
    return ChatRequest("answer", question, passages, messages=(), max_tokens=max_tokens)


def a_call() -> Call:
    return Call(tenant_id("acme"), Deadline.after(60))


async def answer(reranker: Any, *passages: Passage, max_tokens: int = 512) -> str:
    model = ExtractiveModel(reranker)
    return (await model.complete(asked("refunds?", passages, max_tokens), a_call())).text


async def test_the_best_sentence_is_the_answer_with_its_source(passage: Make, table_reranker: Reranker) -> None:
    text = await answer(table_reranker({DAYS: 5.0, FEES: 1.0}), passage(1, FEES), passage(2, DAYS))

    assert text == f"{DAYS} [2]"


async def test_sentences_within_the_margin_join_in_the_order_of_the_sources(
    passage: Make, table_reranker: Reranker
) -> None:
    scores = {CARDS: 5.0, DAYS: 4.0, FEES: 3.0}  # all within two logits of the best

    text = await answer(table_reranker(scores), passage(1, f"{DAYS} {FEES}"), passage(2, CARDS))

    assert text == f"{DAYS} [1] {FEES} [1] {CARDS} [2]"


async def test_a_sentence_below_the_margin_is_left_out(passage: Make, table_reranker: Reranker) -> None:
    text = await answer(table_reranker({DAYS: 5.0, FEES: 2.99}), passage(1, f"{DAYS} {FEES}"))

    assert text == f"{DAYS} [1]"


async def test_three_sentences_are_the_most(passage: Make, table_reranker: Reranker) -> None:
    scores = {DAYS: 5.0, FEES: 4.9, CARDS: 4.8, BANKS: 4.7}

    text = await answer(table_reranker(scores), passage(1, " ".join(scores)))

    assert text == f"{DAYS} [1] {FEES} [1] {CARDS} [1]"


async def test_equal_sentences_are_said_once(passage: Make, table_reranker: Reranker) -> None:
    text = await answer(table_reranker({DAYS: 5.0}), passage(1, DAYS), passage(2, DAYS))

    assert text == f"{DAYS} [1]"


async def test_the_token_limit_leaves_out_later_sentences_but_never_the_first(
    passage: Make, table_reranker: Reranker
) -> None:
    scores = {DAYS: 5.0, FEES: 4.9}  # 23 and 18 characters, four to a token

    whole = await answer(table_reranker(scores), passage(1, f"{DAYS} {FEES}"), max_tokens=11)
    cut = await answer(table_reranker(scores), passage(1, f"{DAYS} {FEES}"), max_tokens=1)

    assert whole == f"{DAYS} [1] {FEES} [1]"
    assert cut == f"{DAYS} [1]"


async def test_brackets_of_a_source_do_not_read_as_marks_of_the_answer(passage: Make, table_reranker: Reranker) -> None:
    quoted = "See [3] and rows[1]."

    assert await answer(table_reranker({quoted: 5.0}), passage(1, quoted)) == "See [ 3 ] and rows[ 1 ]. [1]"


async def test_without_sentences_or_without_time_the_reply_is_empty(passage: Make, table_reranker: Reranker) -> None:
    assert await answer(table_reranker({})) == ""
    assert await answer(table_reranker({}), passage(1, "Too short.")) == ""
    assert await answer(table_reranker({}), passage(1, DAYS)) == ""


async def test_sentences_are_scored_below_their_headings(passage: Make, table_reranker: Reranker) -> None:
    reranker = table_reranker({DAYS: 1.0})

    await answer(reranker, passage(1, DAYS))

    assert reranker.asked == [[f"Guide > Refunds\n{DAYS}"]]


async def test_evidence_is_ordered_by_score_then_place_and_points_into_its_passage(
    passage: Make, table_reranker: Reranker
) -> None:
    sources = [passage(1, f"{DAYS} {FEES}"), passage(2, CARDS)]

    found = await find_evidence(
        table_reranker({DAYS: 1.0, FEES: 2.0, CARDS: 1.0}), "q", sources, deadline=Deadline.after(60)
    )

    assert [(e.n, e.start, e.text) for e in found] == [(1, 24, FEES), (1, 0, DAYS), (2, 0, CARDS)]


async def test_the_stream_is_the_reply_in_pieces_and_then_the_reply(passage: Make, table_reranker: Reranker) -> None:
    model = ExtractiveModel(table_reranker({DAYS: 5.0}))

    *pieces, last = [p async for p in model.stream(asked("q", (passage(1, DAYS),), 512), a_call())]

    assert isinstance(last, Reply)
    assert last.target == "extractive"
    assert "".join(str(piece) for piece in pieces) == last.text == f"{DAYS} [1]"
    assert len(pieces) == 5


async def test_an_answer_is_not_cut_in_the_middle_of_a_date(passage: Make, table_reranker: Reranker) -> None:
    leave = "Resturlaub verfällt am 31. März des Folgejahres."
    text = f"Der Antrag geht an Hrn. Schmidt. {leave} Alles Weitere steht in Nr. 3."

    assert await answer(table_reranker({leave: 5.0}), passage(1, text)) == f"{leave} [1]"
