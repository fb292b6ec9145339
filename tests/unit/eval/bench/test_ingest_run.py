"""The ingest benchmark against a stand-in for the `rag` program, with the real model for the bare part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import eval.bench.home as home_module
from eval.bench.program import main

PROGRAM = """
import http.server, json, os, pathlib, sys, urllib.parse

here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
if arguments[0] == "models":
    print("ok         MODELS/bge_small_en/model.onnx")
if arguments[0] == "key":
    print("the-key")
if arguments[0] == "ingest":
    assert "DATABASE_URL" not in os.environ
    files = len(list(pathlib.Path(arguments[1]).rglob("*.md")))
    (here / "home").write_text(os.environ["RAG_HOME"])
    print(json.dumps({"done": files, "chunks": 3, "seconds": 0.01}))
if arguments[0] == "serve":
    PAGES = {
        ("/v1/documents", None): {"documents": [{"external_id": "a b.md"}], "next": "a b.md"},
        ("/v1/documents", "a b.md"): {"documents": [{"external_id": "c.md"}], "next": None},
        ("a b.md", None): {"chunks": [{"indexed": "one"}], "next": 0},
        ("a b.md", "0"): {"chunks": [{"indexed": "two"}], "next": None},
        ("c.md", None): {"chunks": [{"indexed": "three"}] * SHOWN, "next": None},
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            found = PAGES[query.get("external_id", url.path), query.get("after")]
            self.send_response(200 if self.headers["Authorization"] == "Bearer the-key" else 401)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    sys.stderr.write(f"serving http://127.0.0.1:{server.server_port}\\n")
    sys.stderr.flush()
    server.serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rag.py"
    path.write_text(PROGRAM.replace("MODELS", str(models)).replace("SHOWN", "1"))
    monkeypatch.setattr(home_module, "RAG", (sys.executable, str(path)))
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere")
    return path


def test_texts_that_the_service_shows_are_what_the_bare_model_embeds(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["ingest", "--chunks", "30", "--memory-chunks", "50"])

    written = capsys.readouterr()
    figures = json.loads(written.out.splitlines()[-1])
    assert code == 0, written.err
    assert (figures["chunks_per_s"], figures["chunks"], figures["small_chunks"]) == (300.0, 3, 3)
    assert written.err.count("embedding 3 texts with the bare model") == 4  # to find the best way, and three turns
    assert len(figures["turns"]) == len(figures["bare_turns"]) == 3
    assert figures["bare_chunks_per_s"] >= max(figures["bare_turns"])
    assert not Path((program.parent / "home").read_text()).exists()


def test_chunks_that_the_service_does_not_show_end_the_run(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(program.read_text().replace('{"indexed": "three"}] * 1', '{"indexed": "three"}] * 2'))

    code = main(["ingest", "--chunks", "30", "--no-memory"])

    assert code == 2
    assert "says it stored 3 chunks, GET /v1/chunks shows 4" in capsys.readouterr().err


def test_without_models_it_says_so(process_environment: dict[str, str]) -> None:
    environment = {**process_environment, "RAG_MODELS_DIR": "/nowhere"}
    command = [sys.executable, "-m", "eval", "bench", "ingest"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert done.stderr.startswith("cannot run: ")
    assert "missing" in done.stderr
