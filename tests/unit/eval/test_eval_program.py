"""The program: its doors and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import eval.service as service_module
from eval.__main__ import main

Golden = Callable[..., Path]
PASSAGE = "Run `make demo` **first**."
UNANSWERABLE = {"id": "acme-002", "tenant": "acme", "type": "unanswerable", "question": "Moon?", "gold": []}


@pytest.fixture
def url() -> Iterator[str]:
    """A service that finds the install guide first, unless asked for it last, and knows nothing of the moon."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(_reply(self.path, body["query"]))

        def do_GET(self) -> None:
            self._send({"text": PASSAGE})

        def _send(self, reply: dict[str, Any]) -> None:
            payload = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _reply(path: str, query: str) -> dict[str, Any]:
    guide = {"chunk_id": "c1", "external_id": "guides/install.md", "text": PASSAGE}
    ranks = {stage: {"rank": 1, "score": 1.0} for stage in ("dense", "lexical", "fused")}
    if path == "/v1/search":
        return {"hits": [guide | {"ranks": ranks}], "complete": True, "rerank": "full"}
    if query == "Moon?":
        return {"status": "no_evidence", "citations": []}
    return {"status": "answered", "citations": [guide | {"start": 0, "end": len(PASSAGE), "quote": PASSAGE}]}


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"tenant": "acme", "key": "k"}]))
    return str(path)


def test_a_run_without_a_service_says_where_it_makes_its_tenants_and_how_long_it_takes(
    golden: Golden, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service_module, "RAG", (sys.executable, "-c", "raise SystemExit('no database')"))

    code = main(["--suite", str(golden(asked, UNANSWERABLE))])

    said = capsys.readouterr().err.splitlines()[0]
    assert code == 2
    assert said.startswith("making eval-acme in the database of DATABASE_URL, else of RAG_HOME, until the run ends;")
    assert "2 questions take about 1 min" in said


def test_a_good_service_passes_and_the_result_is_written(
    golden: Golden, asked: dict[str, Any], url: str, keys: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = str(golden(asked, UNANSWERABLE))
    against = ["--suite", suite, "--against", url, "--keys", keys]
    result, page = tmp_path / "out" / "run.json", tmp_path / "out" / "run.md"

    first = main([*against, "--json", str(result), "--report", str(page)])
    again = main([*against, "--baseline", str(result)])

    assert (first, again) == (0, 0)
    assert json.loads(result.read_text())["overall"]["mrr"] == 1.0
    assert page.read_text().startswith("# Evaluation of 2 questions: passed")
    assert "2 questions in both, 0 new, 0 gone." in capsys.readouterr().out


def test_a_missed_threshold_is_exit_one(golden: Golden, asked: dict[str, Any], url: str, keys: str) -> None:
    suite = golden(asked, UNANSWERABLE | {"question": "How do I reach the moon?"})

    assert main(["--suite", str(suite), "--against", url, "--keys", keys]) == 1


def test_a_suite_that_cannot_measure_a_threshold_fails_but_a_limited_run_does_not(
    golden: Golden, asked: dict[str, Any], url: str, keys: str
) -> None:
    against = ["--against", url, "--keys", keys]

    whole = main(["--suite", str(golden(asked)), *against])
    limited = main(["--suite", str(golden(asked, UNANSWERABLE)), *against, "--limit", "1"])

    assert (whole, limited) == (1, 0)


def test_one_tenants_questions_are_held_to_the_overall_bars(
    golden: Golden, asked: dict[str, Any], url: str, keys: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = golden(asked, asked | {"id": "other-001", "tenant": "other"})
    (tmp_path / "corpus" / "acme").rename(tmp_path / "corpus" / "other")
    golden(asked, asked | {"id": "other-001", "tenant": "other"})
    against = ["--suite", str(suite), "--against", url, "--keys", keys]

    whole, part, nobody = main(against), main([*against, "--tenant", "acme"]), main([*against, "--tenant", "moon"])

    assert (whole, part, nobody) == (2, 0, 2)
    told = capsys.readouterr()
    assert "# Evaluation of 1 questions: passed" in told.out
    assert "no key for tenant other" in told.err
    assert "no question of tenant moon" in told.err


def test_what_cannot_run_is_exit_two_with_one_sentence(
    golden: Golden, asked: dict[str, Any], keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = main(["--suite", str(golden(asked)), "--against", "http://127.0.0.1:9", "--keys", keys])
    unreachable = capsys.readouterr().err
    no_suite = main(["--suite", "missing.json"])

    assert (nobody, no_suite) == (2, 2)
    assert "cannot run: POST /v1/search as tenant acme" in unreachable
    assert "cannot be reached" in unreachable


def test_a_result_that_cannot_be_written_is_exit_two(
    golden: Golden, asked: dict[str, Any], url: str, keys: str, tmp_path: Path
) -> None:
    suite = str(golden(asked, UNANSWERABLE))

    assert main(["--suite", suite, "--against", url, "--keys", keys, "--json", str(tmp_path)]) == 2


def test_both_doors_are_the_same_program() -> None:
    root = Path(__file__).parents[3]

    helps = [
        subprocess.run([sys.executable, "-m", door, "--help"], cwd=root, capture_output=True, text=True, check=True)
        for door in ("eval", "rag.eval")
    ]

    assert helps[0].stdout == helps[1].stdout
    assert "--baseline" in helps[0].stdout
