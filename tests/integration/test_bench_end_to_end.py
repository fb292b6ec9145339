"""The benchmarks from end to end, as small as they go, against the real service, database and models."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def bench(process_environment: dict[str, str], models: Path) -> Any:
    def run(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "eval", "bench", *arguments]
        environment = {**process_environment, "RAG_MODELS_DIR": str(models)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures

    return run


def test_our_leg_finds_what_rank_bm25_finds(bench: Any) -> None:
    found = bench("lexical", "--chunks", "600", "--queries", "12")

    assert found["overlap_rank_bm25"] == 1.0
    assert found["qps"] > 0


def test_every_request_of_every_phase_is_answered(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "corpus" / "acme").mkdir(parents=True)
    (tmp_path / "corpus" / "acme" / "trains.md").write_text("# Trains\n\nTrains leave at noon.\n")
    question = {
        "id": "q1",
        "tenant": "acme",
        "type": "paraphrase",
        "question": "When do trains leave?",
        "gold": [{"document": "trains.md", "passage": "Trains leave at noon."}],
    }
    suite = tmp_path / "golden.json"
    suite.write_text(json.dumps({"corpus": "corpus", "questions": [question]}))

    found = bench("load", "--suite", str(suite), "--clients", "3", "--seconds", "1")

    assert found["faults"] == 0
    assert all(found[phase]["requests"] > 0 and found[phase]["errors"] == {} for phase in ("search", "rerank", "mix"))
    assert set(found["uploads"]) == {"done"}


def test_the_cross_encoder_is_measured_alone_where_torch_is_missing(bench: Any) -> None:
    found = bench("rerank", "--queries", "1")

    assert (found["queries"], found["candidates"]) == (1, 50)
    assert found["p50_ms"] > 0
