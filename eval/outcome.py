"""What one question got, and the metrics of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from eval.matching import contains, overlaps
from eval.metrics import Ranks, mean, ndcg, ratio, recall, reciprocal_rank
from eval.service import Citation, Hit, QueryReply, SearchReply
from eval.suite import Gold, Question, QuestionType, Strict

Stage = Literal["dense", "lexical", "fused", "reranked"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Metrics = dict[str, float | None]

MRR_DEPTH = 50  # as deep as a leg looks: what no leg found has no rank
LABELS_KEPT = 10  # enough to name what took a good place, few enough to read in the JSON


class Outcome(Strict):
    """How the service did on one question: where each gold item ranked in each stage, and how it was answered.

    `verdict` is right when a cited quote holds a gold passage, or when an unanswerable question got no answer. A
    degraded answer is an answer.
    """

    id: str
    tenant: str
    type: QuestionType
    question: str
    ranks: dict[Stage, tuple[int | None, ...]]
    first: tuple[str, ...]
    verdict: Literal["right", "wrong", "abstained", "leaked"]
    status: str
    citations: int
    right_citations: int
    right_documents: int
    quote_errors: int
    rerank: str
    complete: bool

    @property
    def rank(self) -> int | None:
        """Rank of the first gold item in the final order."""
        return min((rank for rank in self.ranks["reranked"] if rank), default=None)


def judge(question: Question, search: SearchReply, answer: QueryReply, documents: Mapping[str, str | None]) -> Outcome:
    """The outcome of *question*, from the service's two replies and the texts of the cited documents."""
    texts = {hit.chunk_id: hit.text for hit in search.hits}
    quoted = [_quotes_gold(citation, question.gold) for citation in answer.citations]
    cited = [_is_right(citation, texts.get(citation.chunk_id, ""), question.gold) for citation in answer.citations]
    golden = {gold.document for gold in question.gold}
    return Outcome(
        id=question.id,
        tenant=question.tenant,
        type=question.type,
        question=question.question,
        ranks={stage: _stage_ranks(question.gold, search.hits, stage) for stage in STAGES},
        first=tuple(hit.label for hit in search.hits[:LABELS_KEPT]),
        verdict=_verdict(question, answer.status, any(quoted)),
        status=answer.status,
        citations=len(cited),
        right_citations=sum(cited),
        right_documents=sum(citation.external_id in golden for citation in answer.citations),
        quote_errors=sum(_misquotes(citation, documents) for citation in answer.citations),
        rerank=search.rerank,
        complete=search.complete,
    )


def grouped(outcomes: Sequence[Outcome], by: Literal["tenant", "type"]) -> dict[str, list[Outcome]]:
    """The outcomes of each tenant or type, names in order."""
    names: list[str] = [getattr(outcome, by) for outcome in outcomes]
    return {name: [o for o, own in zip(outcomes, names, strict=True) if own == name] for name in sorted(set(names))}


def retrieval(outcomes: Sequence[Outcome], stage: Stage) -> Metrics:
    """Ranking metrics of one stage, averaged over the questions that have gold."""

    def average(metric: Callable[[Ranks, int], float | None], k: int) -> float | None:
        return mean(metric(outcome.ranks[stage], k) for outcome in outcomes)

    return {f"recall@{k}": average(recall, k) for k in (1, 5, 10, 50)} | {
        "mrr": average(reciprocal_rank, MRR_DEPTH),
        "ndcg@10": average(ndcg, 10),
    }


def summary(outcomes: Sequence[Outcome]) -> Metrics:
    """Every metric of a group of questions.

    Citation precision is over the citations of answerable questions: what an unanswerable one cites is a leak already.
    """
    answerable = [outcome for outcome in outcomes if outcome.type != "unanswerable"]
    unanswerable = len(outcomes) - len(answerable)
    citations = sum(outcome.citations for outcome in answerable)

    def verdicts(name: str) -> int:
        return sum(outcome.verdict == name for outcome in outcomes)

    return retrieval(outcomes, "reranked") | {
        "citation_precision": ratio(sum(outcome.right_citations for outcome in answerable), citations),
        "document_precision": ratio(sum(outcome.right_documents for outcome in answerable), citations),
        "answer_accuracy": mean(outcome.verdict == "right" for outcome in answerable),
        "false_abstain_rate": ratio(verdicts("abstained"), len(answerable)),
        "leak_rate": ratio(verdicts("leaked"), unanswerable),
        "quote_errors": sum(outcome.quote_errors for outcome in outcomes),
        "degraded_answers": sum(outcome.status == "degraded" for outcome in outcomes),
        "partial_reranks": sum(outcome.rerank != "full" for outcome in outcomes),
        "incomplete_searches": sum(not outcome.complete for outcome in outcomes),
        "questions": len(outcomes),
    }


def _stage_ranks(golds: Sequence[Gold], hits: Sequence[Hit], stage: Stage) -> tuple[int | None, ...]:
    places = [place if stage == "reranked" else hit.rank_in(stage) for place, hit in enumerate(hits, 1)]

    def first_rank(gold: Gold) -> int | None:
        held = (place for place, hit in zip(places, hits, strict=True) if place and _holds(hit, gold))
        return min(held, default=None)

    return tuple(map(first_rank, golds))


def _misquotes(citation: Citation, documents: Mapping[str, str | None]) -> bool:
    text = documents.get(citation.external_id) or ""
    return not citation.quote or text[citation.start : citation.end] != citation.quote


def _holds(hit: Hit, gold: Gold) -> bool:
    return gold.document in hit.documents and contains(hit.text, gold.passage)


def _quotes_gold(citation: Citation, golds: Sequence[Gold]) -> bool:
    return any(gold.document == citation.external_id and contains(citation.quote, gold.passage) for gold in golds)


def _is_right(citation: Citation, chunk_text: str, golds: Sequence[Gold]) -> bool:
    return any(
        gold.document == citation.external_id
        and (overlaps(citation.quote, gold.passage) or contains(chunk_text, gold.passage))
        for gold in golds
    )


def _verdict(question: Question, status: str, quotes_gold: bool) -> Literal["right", "wrong", "abstained", "leaked"]:
    if question.type == "unanswerable":
        return "right" if status == "no_evidence" else "leaked"
    if status == "no_evidence":
        return "abstained"
    return "right" if quotes_gold else "wrong"
