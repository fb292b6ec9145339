from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rag.answering.citations import Cited
from rag.answering.citations import cite as cited_by
from rag.calls import Reply
from rag.values import Chunk, Citation, Deadline, Passage
from tests.fakes import FakeReranker

Make = Callable[..., Passage]
REFUNDS = "Refunds take five days. Fees are kept."


def reply(text: str) -> Reply:
    return Reply(text, "fake", "fake-1")


async def cited(reply: Reply, passages: Sequence[Passage]) -> Cited:
    nothing_is_relevant = FakeReranker(logit=lambda query, text: -11.0)
    return await cited_by(reply, passages, reranker=nothing_is_relevant, deadline=Deadline.after(60))


async def cite(reply: Reply, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    found = await cited(reply, passages)
    return found.text, found.citations


def spans(citations: tuple[Citation, ...]) -> list[tuple[int, int, int, str]]:
    return [(c.n, c.start, c.end, c.quote) for c in citations]


async def test_a_claim_in_the_sources_words_is_cited_where_it_stands(passage: Make) -> None:
    text, citations = await cite(reply("Fees are kept. [1]"), [passage(1, REFUNDS, start=100)])

    assert text == "Fees are kept. [1]"
    assert spans(citations) == [(1, 124, 138, "Fees are kept.")]
    assert citations[0].external_id == "guide.md"


async def test_a_claim_in_other_words_is_cited_with_the_sentence_that_shares_most_terms(passage: Make) -> None:
    _, citations = await cite(reply("You wait five days for a refund [1]."), [passage(1, REFUNDS, start=100)])

    assert spans(citations) == [(1, 100, 123, "Refunds take five days.")]


async def test_marks_of_sources_that_do_not_exist_are_removed(passage: Make) -> None:
    text, citations = await cite(reply("Fees are kept [9]. Nothing else [0][100]."), [passage(1, REFUNDS)])

    assert text == "Fees are kept. Nothing else."
    assert citations == ()


async def test_marks_in_a_row_cite_the_same_claim_in_each_source(passage: Make) -> None:
    sources = [passage(1, REFUNDS), passage(2, "Fees: none. Fees are kept.", start=500)]

    _, citations = await cite(reply("Fees are kept. [1][2] [1]"), sources)

    assert spans(citations) == [(1, 24, 38, "Fees are kept."), (2, 512, 526, "Fees are kept.")]


async def test_two_claims_of_one_source_are_two_citations(passage: Make) -> None:
    text, citations = await cite(reply("Refunds take five days. [1] Fees are kept. [1]"), [passage(1, REFUNDS)])

    assert text == "Refunds take five days. [1] Fees are kept. [1]"
    assert [quote for *_, quote in spans(citations)] == ["Refunds take five days.", "Fees are kept."]


async def test_a_mark_before_any_claim_still_has_a_quote(passage: Make) -> None:
    _, citations = await cite(reply("[1] says so"), [passage(1, REFUNDS)])

    assert spans(citations) == [(1, 0, 23, "Refunds take five days.")]


async def test_every_quote_is_the_exact_span_of_its_document(passage: Make) -> None:
    document = "Intro.\n\n" + REFUNDS + "\n- Über 30 €: ask first\n- 退款需要五天。"
    source = passage(1, document[8:], start=8)
    claims = "refund [1] fee [1] ask first over 30 [1] 退款 [1] nothing in common [1]"

    _, citations = await cite(reply(claims), [source])

    assert len(citations) >= 4
    assert all(document[c.start : c.end] == c.quote != "" for c in citations)


async def test_a_citation_names_the_chunk_that_holds_its_quote_or_else_the_best(chunk: Callable[..., Chunk]) -> None:
    best, other = chunk(124, 138, text="Fees are kept."), chunk(100, 123, text="Refunds take five days.")
    source = Passage(1, (best, other), REFUNDS + " Ask us.", 100)

    _, citations = await cite(reply("Fees are kept. [1] Refunds take five days. [1] Ask us. [1]"), [source])

    assert [c.chunk_id for c in citations] == [best.chunk_id, other.chunk_id, best.chunk_id]


async def test_brackets_that_are_no_marks_stay(passage: Make) -> None:
    text, citations = await cite(reply("Use a[i] and [1234] and [x]."), [passage(1, REFUNDS)])

    assert text == "Use a[i] and [1234] and [x]."
    assert citations == ()


async def test_a_reply_without_marks_has_no_citations(passage: Make) -> None:
    assert await cite(reply("Fees are kept."), [passage(1, REFUNDS)]) == ("Fees are kept.", ())


async def test_a_model_that_names_its_places_is_cited_there_whatever_brackets_its_text_has(passage: Make) -> None:
    source = passage(1, "The total is rows[2] of it. Fees are kept.", start=50)
    text = "The total is rows[2] of it. [1]"

    shown, citations = await cite(replace(reply(text), spans=((1, 0, 27),)), [source, passage(2, REFUNDS)])

    assert shown == text
    assert [(c.n, c.start, c.end, c.quote) for c in citations] == [(1, 50, 77, "The total is rows[2] of it.")]


async def test_an_index_in_code_is_no_mark(passage: Make) -> None:
    text, citations = await cite(reply("Read items[0].id or items[7] first. [1]"), [passage(1, REFUNDS)])

    assert text == "Read items[ 0 ].id or items[ 7 ] first. [1]"
    assert [c.n for c in citations] == [1]


async def test_every_mark_is_of_the_passage_with_that_number_whatever_its_document(passage: Make) -> None:
    sources = [passage(1, "Fees are kept."), passage(2, "Cash is refused.", start=50), passage(3, "Cards go first.")]

    text, citations = await cite(reply("x [3], y [1], z [2], w [7]"), sources)

    assert text == "x [3], y [1], z [2], w"
    assert [(c.n, c.quote) for c in citations] == [
        (3, "Cards go first."),
        (1, "Fees are kept."),
        (2, "Cash is refused."),
    ]


async def test_a_sentence_quoted_without_a_mark_is_cited_too_and_another_is_listed(passage: Make) -> None:
    quoted = "Refunds take five working days."

    found = await cited(reply(f"{quoted} Trains are late."), [passage(1, REFUNDS), passage(2, f"Hello. {quoted}")])

    assert spans(found.citations) == [(2, 7, 38, quoted)]
    assert [(doubt.start, doubt.reason) for doubt in found.unsupported] == [(32, "uncited")]
