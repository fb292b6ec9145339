"""Builders of small values for the suite's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eval.outcome import Outcome
from eval.service import Asker, Service

Script = Callable[[str, dict[str, Any]], dict[str, Any]]


def _outcome(id_: str = "q1", ranks: Sequence[int | None] = (1,), **facts: Any) -> Outcome:
    stages = dict.fromkeys(("dense", "lexical", "fused", "reranked"), tuple(ranks)) | facts.pop("stages", {})
    known = {
        "tenant": "acme",
        "type": "paraphrase",
        "question": f"question {id_}?",
        "first": ("a.md > A", "b.md > B"),
        "verdict": "right",
        "status": "answered",
        "citations": 1,
        "right_citations": 1,
        "right_documents": 1,
        "quote_errors": 0,
        "rerank": "full",
        "complete": True,
    }
    return Outcome(**{"id": id_, "ranks": stages} | known | facts)


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    """Makes an outcome: gold at *ranks* in every stage, answered rightly, unless told otherwise."""
    return _outcome


@pytest.fixture
def scripted() -> Callable[[Script], Service]:
    """Makes a service whose replies a function of route and body writes; acme has keys."""

    def make(script: Script) -> Service:
        def handler(request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content) if request.content else {}
            return httpx2.Response(200, json=script(request.url.path, body))

        http = httpx2.AsyncClient(base_url="http://service", transport=httpx2.MockTransport(handler))
        return Service(http, {Asker("acme"): "key", Asker("acme", ("hr",)): "hr-key"})

    return make


@pytest.fixture
def hit() -> Callable[..., dict[str, Any]]:
    """Makes a hit as the service writes it."""

    def make(chunk_id: str, external_id: str, text: str, **ranks: int) -> dict[str, Any]:
        places = {stage: {"rank": rank, "score": 0.5} for stage, rank in ranks.items()}
        return {
            "chunk_id": chunk_id,
            "document_id": "d",
            "external_id": external_id,
            "title": "T",
            "breadcrumb": ["T", "Section"],
            "text": text,
            "start": 0,
            "end": len(text),
            "score": 0.5,
            "ranks": {"dense": None, "lexical": None, "rerank": None, "fused": None} | places,
        }

    return make


@pytest.fixture
def golden(tmp_path: Path) -> Callable[..., Path]:
    """Writes a suite of *questions* over one document of tenant acme; the answer is its path."""

    def write(*questions: dict[str, Any]) -> Path:
        guide = tmp_path / "corpus" / "acme" / "guides" / "install.md"
        guide.parent.mkdir(parents=True, exist_ok=True)
        guide.write_text("# Install\n\nRun `make demo` **first**.\n\n| Code | Meaning |\n|--|--|\n| E-1 | No disk |\n")
        path = tmp_path / "golden.json"
        path.write_text(json.dumps({"corpus": "corpus", "questions": questions}))
        return path

    return write


@pytest.fixture
def asked() -> dict[str, Any]:
    """A question without fault over the document of `golden`."""
    gold = [{"document": "guides/install.md", "passage": "Run make demo first"}]
    return {"id": "acme-001", "tenant": "acme", "type": "paraphrase", "question": "How do I start?", "gold": gold}
