from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.parsers import parse
from rag.answering.citations import Cited, cite
from rag.calls import Reply
from rag.errors import UpstreamUnavailable
from rag.inference.onnx import OnnxReranker
from rag.marks import literal
from rag.protocols import Reranker
from rag.sentences import sentences
from rag.values import Deadline, Passage
from tests.fakes import FakeReranker
from tests.unit.rag.judged_claims import NOT_SUPPORTED, SUPPORTED

Make = Callable[..., Passage]
CORPUS = Path(__file__).parents[3] / "fixtures" / "corpus"
REFUNDS = "Refunds take five days. Fees are kept. Ask the desk about cards."
NOTHING_IS_RELEVANT = FakeReranker(logit=lambda query, text: -11.0)


async def cited(text: str, *passages: Passage, reranker: Reranker = NOTHING_IS_RELEVANT) -> Cited:
    return await cite(Reply(text, "fake", "fake-1"), passages, reranker=reranker, deadline=Deadline.after(60))


def doubts(found: Cited) -> list[tuple[str, str]]:
    return [(found.text[doubt.start : doubt.end], doubt.reason) for doubt in found.unsupported]


@pytest.mark.parametrize(("source", "claim"), SUPPORTED, ids=[claim for _, claim in SUPPORTED])
async def test_a_claim_that_its_source_has_is_not_doubted(
    passage: Make, reranker: OnnxReranker, source: str, claim: str
) -> None:
    found = await cited(f"{claim} [1]", passage(1, source), reranker=reranker)

    assert found.unsupported == ()
    assert [citation.supported for citation in found.citations] == [True]


@pytest.mark.parametrize(("source", "claim"), NOT_SUPPORTED, ids=[claim for _, claim in NOT_SUPPORTED])
async def test_a_claim_that_its_source_has_not_is_doubted(
    passage: Make, reranker: OnnxReranker, source: str, claim: str
) -> None:
    found = await cited(f"{claim} [1]", passage(1, source), reranker=reranker)

    assert doubts(found) == [(claim, "unsupported")]
    assert [citation.supported for citation in found.citations] == [False]


async def test_no_sentence_in_the_words_of_its_source_is_doubted_in_any_document(passage: Make) -> None:
    answers = 0
    for file in sorted(file for file in CORPUS.rglob("*") if file.is_file()):
        text = parse(file.read_bytes(), name=file.name, content_type=None).text
        for part in (text[at : at + 1600] for at in range(0, len(text), 1600)):
            said = [sentence for _, sentence in sentences(part) if len(sentence) >= 12]
            for at in range(0, len(said), 3):  # an extractive answer, judged like any other
                answer = " ".join(f"{literal(sentence)} [1]" for sentence in said[at : at + 3])
                found = await cited(answer, passage(1, part))
                assert (doubts(found), [c for c in found.citations if not c.supported]) == ([], []), file
                answers += 1

    assert answers > 1000


async def test_a_sentence_without_a_mark_is_listed(passage: Make) -> None:
    found = await cited("Fees are kept [1]. The desk opens at nine. Refunds take five days [1].", passage(1, REFUNDS))

    assert doubts(found) == [("The desk opens at nine.", "uncited")]


@pytest.mark.parametrize(
    "said", ["What it says: fees are kept [1].", "# Fees\n\nFees are kept [1].", "Fees? They are kept [1]."]
)
async def test_headings_questions_and_openings_claim_nothing(passage: Make, said: str) -> None:
    assert doubts(await cited(said, passage(1, REFUNDS))) == []


async def test_sentences_quoted_in_a_row_need_one_mark_at_their_end(passage: Make) -> None:
    found = await cited("Refunds take five days. Fees are kept. [1]", passage(1, REFUNDS))

    assert doubts(found) == []


async def test_each_clause_of_a_sentence_is_judged_by_its_own_mark(passage: Make) -> None:
    sources = passage(1, REFUNDS), passage(2, "Cards are refunded first.", start=500)

    right = await cited("Refunds take five days [1] and cards are refunded first [2].", *sources)
    swapped = await cited("Refunds take five days [2] and cards are refunded first [1].", *sources)

    assert [(c.n, c.supported) for c in right.citations] == [(1, True), (2, True)]
    assert [(c.n, c.supported) for c in swapped.citations] == [(2, False), (1, False)]
    assert [reason for _, reason in doubts(swapped)] == ["unsupported"]


async def test_sources_that_support_a_claim_only_together_both_do(passage: Make) -> None:
    sources = passage(1, "The Rotterdam office opens at 06:30."), passage(2, "The Singapore office opens at 07:30.")

    found = await cited("The Rotterdam office opens at 06:30 and the Singapore office at 07:30 [1][2].", *sources)

    assert [(c.n, c.supported) for c in found.citations] == [(1, True), (2, True)]


async def test_a_source_cited_beside_the_right_one_for_nothing_is_not_supporting(passage: Make) -> None:
    found = await cited("All fees are kept [1][2].", passage(1, REFUNDS), passage(2, "Pumps need oil.", start=500))

    assert [(c.n, c.supported) for c in found.citations] == [(1, True), (2, False)]
    assert doubts(found) == []


async def test_a_number_that_stands_elsewhere_in_the_source_does_not_support_a_claim(passage: Make) -> None:
    source = passage(1, f"{REFUNDS} Cash is not taken. Parcels may weigh 45 kg.")

    assert doubts(await cited("Parcels may weigh 45 kg at most [1].", source)) == []
    assert doubts(await cited("Refunds take 45 days [1].", source)) == [("Refunds take 45 days [1].", "unsupported")]


async def test_a_cross_encoder_that_fails_leaves_the_words_to_judge(passage: Make) -> None:
    failing = FakeReranker(UpstreamUnavailable())

    found = await cited("Fees are kept [1]. Pumps need oil [1].", passage(1, REFUNDS), reranker=failing)

    assert [reason for _, reason in doubts(found)] == ["unsupported"]


async def test_the_span_of_a_doubted_sentence_counts_in_the_answer_as_shown(passage: Make) -> None:
    found = await cited("Fees are kept [9]. Fees are kept [1].", passage(1, REFUNDS))

    assert found.text == "Fees are kept. Fees are kept [1]."
    assert [(d.start, d.end, d.reason) for d in found.unsupported] == []
