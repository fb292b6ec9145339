"""What the phases of the load benchmark come to."""

from __future__ import annotations

from eval.bench.clients import Answer, Phase, Request
from eval.bench.load import figures, latencies, phase_figures


def answer(kind: str, status: str, elapsed_ms: float, **facts: object) -> Answer:
    retry_after_s = 2.0 if facts.pop("clean", False) else None
    return Answer(Request(kind, "POST", "/v1/search", "key"), status, elapsed_ms, retry_after_s, facts)


def test_latencies_are_of_what_succeeded_and_the_rest_is_counted_by_status() -> None:
    quick = [answer("search", "200", float(ms)) for ms in range(1, 101)]
    refused = [answer("search", "503", 0.1, clean=True), answer("search", "ReadTimeout", 60_000.0)]

    found = phase_figures(Phase((*quick, *refused), seconds=20.0))

    assert found == {
        "requests": 102,
        "errors": {"503": 1, "ReadTimeout": 1},
        "rps": 5.0,  # 100 in 20 s
        "p50_ms": 50.0,
        "p95_ms": 95.0,
        "p99_ms": 99.0,
    }


def test_a_mix_shows_each_kind_and_how_far_reranking_came() -> None:
    answers = (
        answer("search", "200", 10.0, rerank="skipped"),
        answer("rerank", "200", 900.0, rerank="full"),
        answer("rerank", "200", 3000.0, rerank="partial"),
        answer("upload", "202", 5.0),
    )

    found = phase_figures(Phase(answers, seconds=2.0))

    assert found["reranked"] == {"full": 1, "partial": 1}
    assert found["upload"] == {"p50_ms": 5.0, "p95_ms": 5.0, "p99_ms": 5.0}
    assert found["rerank"] == {"p50_ms": 900.0, "p95_ms": 3000.0, "p99_ms": 3000.0}


def test_only_what_broke_is_a_fault() -> None:
    one = Phase((answer("search", "503", 1.0, clean=True), answer("search", "500", 1.0)), seconds=1.0)
    other = Phase((answer("search", "200", 1.0), answer("search", "ConnectError", 1.0)), seconds=1.0)

    found = figures({"search": one, "rerank": other})

    assert (found["requests"], found["faults"]) == (4, 2)


def test_of_nothing_there_is_no_latency() -> None:
    assert latencies([]) == {"p50_ms": None, "p95_ms": None, "p99_ms": None}
