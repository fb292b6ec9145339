"""A run told to machines and to people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from eval.baseline import Baseline, compare, read_baseline
from eval.gate import Verdict
from eval.outcome import Outcome
from eval.report import Report
from eval.run import Run

OutcomeMaker = Callable[..., Outcome]


def _report(*outcomes: Outcome, ms: float = 1.0) -> Report:
    run = Run(outcomes, ("extractive/extractive",), search_ms=(ms,), query_ms=(ms,))
    return Report("f" * 64, run, (Verdict("overall: mrr", 0.5, ">= 0.7", passed=False),))


def test_two_runs_alike_differ_in_timings_only(outcome: OutcomeMaker) -> None:
    texts = [_report(outcome("q1"), outcome("q2", ()), ms=ms).as_json() for ms in (1.0, 2.0)]

    first, second = map(json.loads, texts)

    assert texts[0] != texts[1]
    assert first.pop("timings") != second.pop("timings")
    assert json.dumps(first) == json.dumps(second)


def test_what_was_written_can_be_a_baseline(outcome: OutcomeMaker, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(_report(outcome("q1", (3, None))).as_json())

    baseline = read_baseline(path)

    assert baseline == Baseline(sha256="f" * 64, questions=(outcome("q1", (3, None)),))


def test_the_page_shows_gate_groups_stages_and_latency(outcome: OutcomeMaker) -> None:
    page = _report(outcome("q1", (2,), stages={"dense": (4,)}), outcome("q2", (), type="unanswerable")).as_markdown()

    lines = [" ".join(line.split()) for line in page.splitlines()]

    assert lines[0] == "# Evaluation of 2 questions: 1 checks FAILED"
    assert "| overall: mrr | 0.500 | >= 0.7 | FAIL |" in lines
    assert "| dense | 1.000 | 1.000 | 0.250 | 0.431 |" in lines
    assert "| reranked | 1.000 | 1.000 | 0.500 | 0.631 |" in lines
    assert "| unanswerable | 1 | - | - | - | - | - | - | - | - | - | - | 0.000 |" in lines
    assert "| search | 1.000 | 1.000 |" in lines


def test_the_page_says_what_changed_since_the_baseline(outcome: OutcomeMaker) -> None:
    before = Baseline(sha256="old", questions=(outcome("q1", (1,), question="a | b?"),))
    after = outcome("q1", (2,), question="a | b?", verdict="abstained", status="no_evidence")
    report = _report(after)
    comparison = compare(before, [after], sha256=report.sha256, significance=0.05)

    page = Report(report.sha256, report.run, comparison.verdicts, comparison).as_markdown()

    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "The baseline was made with another suite or corpus: ranks may differ for that reason." in lines
    assert "| mrr | 1.000 | 0.500 | -0.500 |" in lines
    assert "### Worse: 1" in lines
    assert "| q1 | a \\| b? | 1 -> 2 | right -> abstained | a.md > A |" in lines
    assert "### Better: 0" in lines
