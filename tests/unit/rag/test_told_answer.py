"""What `rag ask` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args
from uuid import UUID

from rag.calls import Answer, Degraded, Unsupported, Usage
from rag.commands.asking import UNRANKED, told
from rag.values import Chunk, ChunkId, Citation, DocumentId, Hit, RerankReason, Retrieval

CHUNK, DOCUMENT = ChunkId(UUID(int=1)), DocumentId(UUID(int=2))


def answer(**changed: Any) -> Answer:
    nothing = Retrieval(hits=(), complete=True, rerank="full", index_version=1, timings_ms={})
    facts: dict[str, Any] = {
        "status": "answered", "text": "Five days. [1] Or so.", "target": "small", "model": "qwen3", "usage": Usage(),
        "citations": (Citation(1, CHUNK, DOCUMENT, "refunds.md", 9, 19, "Five\n days"),),
        "retrieval": nothing, "timings_ms": {"model": 12.4, "total": 20.0},
    }  # fmt: skip
    return Answer(**facts | changed)


def test_an_answer_is_told_with_its_sources_its_doubts_and_who_made_it() -> None:
    lines = list(told(answer(unsupported=(Unsupported(15, 21, "uncited"),))))

    assert lines == [
        "Five days. [1] Or so.",
        '  [1] refunds.md [9:19] "Five days"',
        "  uncited: Or so.",
        "answered by small; model 12 ms, total 20 ms",
    ]


def test_a_long_quote_ends_at_a_word_with_an_ellipsis() -> None:
    citation = Citation(1, CHUNK, DOCUMENT, "refunds.md", 9, 309, "Five days. " * 30)

    [_, line, *_] = told(answer(citations=(citation,)))

    assert line == f'  [1] refunds.md [9:309] "{"Five days. " * 10}Five…"'


def test_an_answer_of_a_lesser_model_says_why() -> None:
    why = Degraded("config", "small: it refuses our key")

    lines = list(told(answer(status="degraded", target="extractive", degraded=why)))

    assert lines[-2:] == ["  small: it refuses our key", "degraded by extractive; model 12 ms, total 20 ms"]


def test_that_there_is_no_answer_is_told() -> None:
    lines = list(told(answer(status="no_evidence", text="", citations=(), target="")))

    assert lines == [
        "The documents do not answer this (no_evidence); `rag search` shows what comes nearest.",
        "no_evidence, so no model was asked; model 12 ms, total 20 ms",
    ]


def test_a_kept_answer_and_the_fate_of_high_recall_are_told() -> None:
    nothing = Retrieval(
        hits=(), complete=True, rerank="full", index_version=1, timings_ms={}, expansion_state="no_chain"
    )

    *_, last = told(answer(cache="hit", retrieval=nothing))

    assert last == "answered by small (kept answer); expansion no_chain; model 12 ms, total 20 ms"


def test_that_the_sources_were_not_all_reranked_is_told_and_why(chunk: Callable[..., Chunk]) -> None:
    hit = Hit(chunk(0, 9), score=1.0, fused_rank=1, fused_score=1.0)
    found = Retrieval(
        hits=(hit,), complete=True, rerank="partial", rerank_reason="busy", index_version=1, timings_ms={}
    )

    *_, last = told(answer(retrieval=found))

    assert last == "answered by small; rerank partial: too many questions were before it; model 12 ms, total 20 ms"


def test_every_reason_for_hits_that_are_not_reranked_has_its_words() -> None:
    assert set(UNRANKED) == set(get_args(RerankReason))
