"""What the calls through failover come to beside bare ones, and a whole run."""

from __future__ import annotations

import json

import pytest

from eval.bench.llm import Taken, figures
from eval.bench.program import main


def test_what_is_added_is_the_difference_of_the_percentiles() -> None:
    bare = [Taken(1.0, float(ms)) for ms in range(1, 101)]
    ours = [Taken(1.5, ms + 2.0) for ms in range(1, 100)] + [Taken(1.5, 130.0)]

    found = figures(ours, bare)

    assert found == {
        "added_p50_ms": 2.0,
        "added_p99_ms": 2.0,  # 101 and 99: the one call of 130 is above it
        "first_content_ms": 0.5,
        "p50_ms": 52.0,
        "bare_p50_ms": 50.0,
    }


def test_a_small_run_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["llm", "--requests", "5", "--words", "4", "--concurrent", "3", "--seconds", "1"])

    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0
    assert list(found)[:4] == ["benchmark", "added_p50_ms", "added_p99_ms", "first_content_ms"]
    assert found["requests"] == 5
    assert found["answers_per_s"] > 3  # each of three callers has had more than one answer
    assert found["p50_ms"] == pytest.approx(found["bare_p50_ms"] + found["added_p50_ms"], abs=0.02)
