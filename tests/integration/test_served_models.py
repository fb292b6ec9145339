"""The `rag` command with models behind HTTP: a real socket, real processes, and a server that computes toy vectors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag.values import tenant_id
from tests.conftest import REPOSITORY, MakeTenant
from tests.fakes import unit_vector

Run = Callable[..., subprocess.CompletedProcess[str]]

NAME = "served"
KEY = "sk-very-secret"
POISON = "POISON"
PICKY = "picky"  # the model that embeds nothing but what the check asks
READY = "ready?"


class ModelHandler(BaseHTTPRequestHandler):
    """Embeds by words, reranks by shared words as probabilities, and refuses what has the word POISON in it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self.reply(401, {"error": f"wrong key {self.headers.get('Authorization')}"})
        elif self.path == "/v1/embeddings":
            self.embed(body["input"], only=READY if body["model"] == PICKY else "")
        elif self.path == "/v1/rerank":
            words = set(body["query"].lower().split())
            shared = [len(words & set(text.lower().split())) / (1 + len(words)) for text in body["documents"]]
            rows = [{"index": n, "relevance_score": share} for n, share in enumerate(shared)]
            self.reply(200, {"results": sorted(rows, key=lambda row: -row["relevance_score"])})
        else:
            self.reply(404, {"error": "no such route"})

    def embed(self, texts: list[str], *, only: str) -> None:
        if any(POISON in text or only not in text for text in texts):
            self.reply(400, {"error": "the content filter says no"})
            return
        self.reply(200, {"data": [{"index": n, "embedding": unit_vector(t).tolist()} for n, t in enumerate(texts)]})

    def reply(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: the test's output is pytest's."""


@pytest.fixture(scope="module")
def models_url() -> Iterator[str]:
    """The base URL of a model server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
async def run(
    models_url: str,
    make_tenant: MakeTenant,
    owner: psycopg.Connection,
    database_url: str,
    process_environment: dict[str, str],
) -> Run:
    """Runs `rag` with both models behind HTTP."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    await make_tenant(NAME)
    served = {
        "DATABASE_URL": database_url,
        "RAG_EMBEDDER": f"{models_url}?model=words&document_prefix=passage:+",
        "RAG_EMBEDDER_KEY": KEY,
        "RAG_RERANKER": f"{models_url}?model=shares",
        "RAG_RERANKER_KEY": KEY,
    }

    def rag(*arguments: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rag", *map(str, arguments)]
        env = {**process_environment, **served, **changed}
        return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=60, check=False)

    return rag


def test_documents_are_found_by_served_vectors_and_ordered_by_served_scores(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "refunds.md").write_text("# Refunds\n\nA refund takes five days.\n")
    (tmp_path / "pumps.md").write_text("# Pumps\n\nThe pump needs oil.\n")

    ingested = run("ingest", tmp_path, "--tenant", NAME)
    found = run("search", "a refund takes how long", "--tenant", NAME, "--json")
    wider = run("search", "a refund takes how long", "--tenant", NAME, "--recall", "high")

    assert "rerank full; expansion no_chain; " in wider.stdout
    assert ingested.returncode == 0, ingested.stderr
    body = json.loads(found.stdout)
    assert body["rerank"] == "full"
    assert [hit["external_id"] for hit in body["hits"]] == ["refunds.md", "pumps.md"]
    names = owner.execute("SELECT embedder FROM indexes WHERE tenant_id = %s", (tenant_id(NAME),)).fetchall()
    assert names == [("remote:words?document_prefix=passage%3A+",)]


def test_one_text_that_is_refused_costs_no_other_its_vector(
    run: Run, owner: psycopg.Connection, tmp_path: Path
) -> None:
    for n in range(40):
        (tmp_path / f"{n}.md").write_text(f"# Page {n}\n\n{POISON if n == 17 else 'Oil'} number {n} for pumps.\n")

    done = run("ingest", tmp_path, "--tenant", NAME)

    query = "SELECT external_id FROM documents JOIN chunks USING (tenant_id, document_id) WHERE tenant_id = %s"
    with_vector = f"{query} AND ord IN (SELECT ord FROM embeddings WHERE tenant_id = %s)"
    assert len(owner.execute(with_vector, (tenant_id(NAME), tenant_id(NAME))).fetchall()) == 39, done.stdout
    assert "the content filter says no" in done.stdout + done.stderr


def test_the_doctor_says_which_models_are_used_and_no_key(run: Run) -> None:
    done = run("doctor")

    assert "embedder remote:words?document_prefix=passage%3A+; RAG_EMBEDDER is http://127.0.0.1" in done.stdout
    assert "reranker remote:shares; RAG_RERANKER is http://127.0.0.1" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_the_doctor_asks_each_chat_target_and_says_what_is_wrong(run: Run) -> None:
    target = {"name": "away", "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "m"}

    done = run("doctor", RAG_CHAT_TARGETS=json.dumps([target]), RAG_CHAT_KEYS=json.dumps({"away": KEY}))
    unknown = run("doctor", RAG_CHAT_CHAINS=json.dumps({"answer": ["nobody"]}))

    assert done.returncode == 1
    assert "wrong      chat target away: nothing answers at http://127.0.0.1:9/v1" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert unknown.returncode == 1
    assert "wrong      RAG_CHAT_CHAINS: answer names nobody, which is no target\n" in unknown.stdout


def test_one_fault_hides_no_other_from_the_doctor(run: Run, tmp_path: Path) -> None:
    nobodys = "postgresql://nobody:secret@127.0.0.1:9/rag"

    done = run("doctor", RAG_EMBEDDER="onnx", RAG_EMBEDDER_KEY="", RAG_MODELS_DIR=str(tmp_path), DATABASE_URL=nobodys)

    verdicts = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert [(verdict, what) for verdict, what, _ in verdicts] == [
        ("ok", "settings;"), ("wrong", f"{tmp_path}/bge_small_en/model.onnx"), ("ok", "reranker"), ("ok", "answers"),
        ("ok", "no"), ("ok", "no"), ("wrong", "the"),
    ]  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "the database cannot be used now" in done.stdout
    assert "secret" not in done.stdout


def test_the_list_of_model_files_says_what_brings_those_that_are_missing(run: Run, tmp_path: Path) -> None:
    listed = run("models", "list", RAG_MODELS_DIR=str(tmp_path))

    *files, last = listed.stdout.splitlines()
    assert [line.split()[0] for line in files] == ["missing"] * 4
    assert (last, listed.returncode) == ("`rag models pull` fetches what is not ok", 1)


def test_the_doctor_warns_of_settings_without_effect_and_calls_them_no_fault(run: Run) -> None:
    price = json.dumps({"qwen": [{"input": 1, "output": 2}]})

    done = run("doctor", RAG_PRICES=price)

    assert "warning    RAG_PRICES: no chat target or model is named qwen, for RAG_CHAT_TARGETS is empty" in done.stdout
    assert done.returncode == 0


def test_the_doctor_warns_of_models_that_will_be_refused_for_their_price_or_what_they_may_not_read(run: Run) -> None:
    target = {"name": "small", "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "qwen3"}
    chat = {"RAG_CHAT_TARGETS": json.dumps([target]), "RAG_CHAT_CHAINS": '{"answer": ["small"]}'}

    done = run("doctor", RAG_DATA_CLASSES="health", **chat)

    assert "warning    RAG_PRICES: nobody knows what 127.0.0.1/qwen3 costs" in done.stdout
    assert "warning    RAG_DATA_CLASSES: no target of the chain for answer allows health" in done.stdout


@pytest.mark.parametrize("variable", ["RAG_EMBEDDER_KEY", "RAG_RERANKER_KEY"])
def test_a_wrong_key_is_one_line_that_names_the_variable(run: Run, variable: str) -> None:
    done = run("doctor", **{variable: "sk-wrong"})

    assert done.returncode == 1
    [wrong] = [line for line in done.stdout.splitlines() if line.startswith("wrong")]
    assert wrong.endswith(f"refuses the key (401); check {variable}")
    assert "sk-wrong" not in done.stdout + done.stderr


def test_two_embedders_may_be_listed_each_with_its_key(run: Run, models_url: str) -> None:
    both = f"onnx,{models_url}?model=words,{models_url}?model=words&document_prefix=d"

    done = run("doctor", RAG_EMBEDDER=both, RAG_EMBEDDER_KEY=f"{KEY},{KEY}")
    twice = run(
        "doctor", RAG_EMBEDDER=f"{models_url}?model=words,{models_url}?model=words", RAG_EMBEDDER_KEY=f"{KEY},{KEY}"
    )

    assert "embedder bge-small-en-v1.5-int8, remote:words, remote:words?document_prefix=d;" in done.stdout
    assert "wrong      RAG_EMBEDDER lists remote:words twice\n" in twice.stdout


def test_no_switch_to_an_index_whose_embedder_refused_everything(
    run: Run, owner: psycopg.Connection, models_url: str, tmp_path: Path
) -> None:
    for name in ("refunds", "pumps"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nAll of {name}.\n")
    assert run("ingest", tmp_path, "--tenant", NAME).returncode == 0

    def current() -> object:
        return owner.execute("SELECT generation FROM tenants WHERE tenant_id = %s", (tenant_id(NAME),)).fetchone()

    refused = run("reindex", "--tenant", NAME, RAG_EMBEDDER=f"{models_url}?model={PICKY}")
    before = current()
    again = run("reindex", "--tenant", NAME, "--json", RAG_EMBEDDER=f"{models_url}?model={PICKY}")
    forced = run("reindex", "--tenant", NAME, "--force", RAG_EMBEDDER=f"{models_url}?model={PICKY}")

    assert (refused.returncode, again.returncode, forced.returncode) == (1, 1, 0), refused.stderr + forced.stderr
    assert "the embedder refused every chunk of 2 documents, pumps.md, refunds.md; index 2 " in refused.stdout
    assert json.loads(again.stdout)["state"] == "unembedded"
    assert (before, current()) == ((1,), (2,))


def test_an_embedder_that_refuses_documents_is_a_wrong_setting(run: Run, models_url: str) -> None:
    done = run("doctor", RAG_EMBEDDER=f"{models_url}?model=words&document_prefix={POISON}")

    assert done.returncode == 1
    assert "the content filter says no" in done.stdout
