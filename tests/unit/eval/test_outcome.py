"""What one question got, and the metrics of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eval.outcome import Outcome, judge, retrieval, summary
from eval.service import QueryReply, SearchReply
from eval.suite import Question

HitMaker = Callable[..., dict[str, Any]]
OutcomeMaker = Callable[..., Outcome]

QUESTION = Question.model_validate(
    {
        "id": "q1",
        "tenant": "acme",
        "type": "comparison",
        "question": "Which is longer?",
        "gold": [
            {"document": "a.md", "passage": "alpha takes two days"},
            {"document": "b.md", "passage": "beta takes three days"},
        ],
    }
)


def _search(*hits: dict[str, Any], **facts: Any) -> SearchReply:
    return SearchReply.model_validate({"hits": hits, "complete": True, "rerank": "full", "elapsed_ms": 1.0} | facts)


def _reply(status: str, *citations: tuple[str, str, str]) -> QueryReply:
    named = [
        {"chunk_id": chunk, "external_id": document, "start": 0, "end": len(quote), "quote": quote}
        for chunk, document, quote in citations
    ]
    return QueryReply.model_validate({"status": status, "citations": named, "elapsed_ms": 1.0})


def test_each_stage_is_ranked_by_its_own_ranks_and_the_last_by_the_order_of_the_list(hit: HitMaker) -> None:
    search = _search(
        hit("c1", "x.md", "alpha takes two days", fused=1, dense=1),
        hit("c2", "a.md", "Alpha takes **two** days.", fused=3, lexical=4),
        hit("c3", "a.md", "Again: alpha takes two days.", fused=2, dense=5),
    )

    ranks = judge(QUESTION, search, _reply("no_evidence"), {}).ranks

    assert ranks == {"dense": (5, None), "lexical": (4, None), "fused": (2, None), "reranked": (2, None)}


def test_a_hit_counts_for_every_document_that_says_the_same(hit: HitMaker) -> None:
    copied = hit("c1", "copy.md", "alpha takes two days") | {"also_in": [{"external_id": "a.md"}]}

    ranks = judge(QUESTION, _search(copied), _reply("no_evidence"), {}).ranks

    assert ranks["reranked"] == (1, None)


def test_a_citation_is_right_by_its_quote_or_by_its_chunk_but_only_in_a_gold_document(hit: HitMaker) -> None:
    search = _search(
        hit("c1", "a.md", "Intro. Alpha takes two days. Outro."),
        hit("c2", "x.md", "Copied: alpha takes two days."),
        hit("c3", "b.md", "Nothing here."),
    )
    answer = _reply(
        "answered",
        ("c1", "a.md", "Alpha takes two days."),
        ("c1", "a.md", "Outro."),
        ("c2", "x.md", "alpha takes two days"),
        ("c3", "b.md", "Nothing here."),
    )

    outcome = judge(QUESTION, search, answer, {})

    assert (outcome.citations, outcome.right_citations, outcome.right_documents) == (4, 2, 3)
    assert outcome.verdict == "right"


def test_a_quote_that_does_not_stand_at_its_span_of_the_document_is_counted() -> None:
    documents = {"a.md": "Alpha takes two days.", "b.md": None}
    answer = _reply(
        "answered",
        ("c1", "a.md", "Alpha takes"),
        ("c1", "a.md", "takes two"),
        ("c2", "b.md", "Beta"),
        ("c1", "a.md", ""),
    )

    assert judge(QUESTION, _search(), answer, documents).quote_errors == 3


def test_an_answer_without_a_gold_quote_is_wrong_and_no_answer_is_an_abstention(hit: HitMaker) -> None:
    search = _search(hit("c1", "a.md", "Alpha takes two days. It is blue."))

    wrong = judge(QUESTION, search, _reply("answered", ("c1", "a.md", "It is blue.")), {})
    abstained = judge(QUESTION, search, _reply("no_evidence"), {})

    assert (wrong.verdict, wrong.right_citations) == ("wrong", 1)
    assert abstained.verdict == "abstained"


def test_any_answer_to_an_unanswerable_question_is_a_leak() -> None:
    question = QUESTION.model_copy(update={"type": "unanswerable", "gold": ()})

    verdicts = [judge(question, _search(), _reply(s), {}).verdict for s in ("answered", "degraded", "no_evidence")]

    assert verdicts == ["leaked", "leaked", "right"]


def test_a_summary_averages_over_the_questions_a_metric_applies_to(outcome: OutcomeMaker) -> None:
    nothing_cited = {"citations": 0, "right_citations": 0, "right_documents": 0}
    outcomes = [
        outcome("q1", (1, 3), citations=3, right_citations=1, right_documents=2),
        outcome("q2", (None,), verdict="abstained", status="no_evidence", rerank="partial", **nothing_cited),
        outcome("q3", (), type="unanswerable", verdict="leaked", citations=5, right_citations=0, complete=False),
        outcome("q4", (), type="unanswerable", status="no_evidence", **nothing_cited),
    ]

    metrics = summary(outcomes)

    assert metrics["recall@1"] == (1 / 2 + 0) / 2
    assert metrics["mrr"] == (1 + 0) / 2
    assert metrics["citation_precision"] == 1 / 3
    assert metrics["document_precision"] == 2 / 3
    assert metrics["answer_accuracy"] == 1 / 2
    assert metrics["false_abstain_rate"] == 1 / 2
    assert metrics["leak_rate"] == 1 / 2
    assert (metrics["partial_reranks"], metrics["incomplete_searches"], metrics["questions"]) == (1, 1, 4)


def test_of_no_questions_no_metric_applies_and_nothing_is_counted() -> None:
    metrics = summary([])

    assert {name for name, value in metrics.items() if value is not None} == {
        "quote_errors",
        "degraded_answers",
        "partial_reranks",
        "incomplete_searches",
        "questions",
    }


def test_stages_are_averaged_apart(outcome: OutcomeMaker) -> None:
    outcomes = [outcome(ranks=(1,), stages={"dense": (4,), "lexical": (None,)})]

    assert [retrieval(outcomes, stage)["mrr"] for stage in ("dense", "lexical", "reranked")] == [1 / 4, 0.0, 1.0]
