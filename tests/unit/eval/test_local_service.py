"""A service started for one run, here with a stand-in for the `rag` program."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

import eval.service as service_module
from eval.errors import CannotRun
from eval.service import Asker, Corpus, local_service, started_service

PROGRAM = """
import http.server, json, os, pathlib, sys

here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
if arguments[0] == "key":
    print("the-key")
if arguments[0] == "ingest":
    if "crash" in arguments[1]:
        sys.exit("no model files")
    failed = "bad" in arguments[1]
    print("some progress")
    print(json.dumps({"files": 1, "failed": int(failed), "failures": ["bad.pdf: no text"] * failed}))
    sys.exit(failed)
if arguments[0] == "serve":
    if (here / "broken").exists():
        sys.exit("no database")
    (here / "pid").write_text(str(os.getpid()))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def do_POST(self):
            body = json.dumps({"hits": [], "complete": True, "rerank": os.environ["RAG_RERANK_DEADLINE_S"]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    http.server.HTTPServer(("127.0.0.1", int(arguments[2])), Handler).serve_forever()
"""
ASKER = Asker("acme", ("hr", "it"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "rag.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(service_module, "RAG", (sys.executable, str(program)))
    return tmp_path


def _ask_once(corpus: Corpus) -> str:
    async def ask() -> str:
        async with local_service([corpus], [ASKER]) as service:
            return (await service.search(ASKER, {"query": "?"})).rerank

    return asyncio.run(ask())


def _calls(home: Path) -> list[str]:
    return (home / "calls").read_text().splitlines()


def test_a_run_leaves_neither_tenant_nor_process(home: Path) -> None:
    deadline = _ask_once(Corpus("acme", home / "docs"))

    calls = _calls(home)
    assert deadline == "60"
    assert [call.split(" --port")[0] for call in calls] == [
        "tenant delete eval-acme --if-exists --yes",
        "tenant create eval-acme",
        f"ingest {home}/docs --tenant eval-acme --json",
        "key create --tenant eval-acme --scopes query --groups hr,it",
        "serve",
        "tenant delete eval-acme --if-exists --yes",
    ]
    assert not Path(f"/proc/{(home / 'pid').read_text()}").exists()


def test_with_keys_the_tenants_that_are_there_are_asked(home: Path) -> None:
    (keys := home / "keys.json").write_text(json.dumps([{"tenant": "acme", "groups": ["it", "hr"], "key": "k"}]))

    async def ask() -> str:
        async with started_service(keys, [ASKER]) as service:
            return (await service.search(ASKER, {"query": "?"})).rerank

    deadline = asyncio.run(ask())

    assert deadline == "60"
    assert [call.split(" --port")[0] for call in _calls(home)] == ["serve"]


def test_records_are_ingested_as_records(home: Path) -> None:
    _ask_once(Corpus("beir-x", home / "corpus.jsonl"))

    assert f"ingest {home}/corpus.jsonl --tenant eval-beir-x --json --jsonl" in _calls(home)


def test_a_document_that_fails_ends_the_run_and_the_tenant_is_deleted(home: Path) -> None:
    with pytest.raises(CannotRun, match=r"1 documents of .*bad could not be ingested: \['bad.pdf: no text'\]"):
        _ask_once(Corpus("acme", home / "bad"))

    assert _calls(home)[-1] == "tenant delete eval-acme --if-exists --yes"


def test_a_program_that_fails_is_quoted(home: Path) -> None:
    with pytest.raises(CannotRun, match=r"`rag ingest .*crash .*` ended with 1: no model files"):
        _ask_once(Corpus("acme", home / "crash"))


def test_a_service_that_does_not_start_is_quoted(home: Path) -> None:
    (home / "broken").touch()

    with pytest.raises(CannotRun, match="`rag serve` did not become ready: no database"):
        _ask_once(Corpus("acme", home / "docs"))

    assert _calls(home)[-1] == "tenant delete eval-acme --if-exists --yes"
