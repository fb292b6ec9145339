from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import psycopg
import pytest
from psycopg import sql

from ingest.pipeline import Pipeline, Source
from ingest.worker import Worker
from rag.errors import UpstreamError
from rag.values import tenant_id
from rag.wiring import Services
from tests.e2e.conftest import MARKDOWN, Caller, FakeService, OpenFake, serving_process
from tests.e2e.test_query_http import events
from tests.fakes import FakeChat, embedders, parse_directly

ANSWER = ("A refund ", "takes five ", "days. ", "[1]")
QUESTION = "refund takes five days"


async def with_a_document(fake: FakeService, text: str = "A refund takes five days.") -> Caller:
    caller = await fake.caller()
    source = Source("refunds.md", f"# Refunds\n\n{text}\n".encode())
    [result] = await Pipeline(fake.database, embedders(), parse_directly).ingest(tenant_id("fake"), [source])
    assert result.state == "done"
    return caller


async def test_the_process_is_live_and_ready(http: httpx2.AsyncClient) -> None:
    live, ready = await http.get("/healthz"), await http.get("/readyz")

    assert (live.status_code, live.json()) == (200, {"status": "live"})
    parts = {"database": "ok", "models": "ok", "chat": {}, "chat_means": {}}
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", **parts})


def test_the_log_of_a_server_warns_of_settings_without_effect(
    clone: Callable[[], str], process_environment: dict[str, str], tmp_path: Path
) -> None:
    target = {"name": "spare", "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "m"}
    own = {"DATABASE_URL": clone(), "RAG_CHAT_TARGETS": json.dumps([target])}

    with serving_process({**process_environment, **own}, tmp_path) as serving:
        logged = serving.log.read_text()

    assert "RAG_CHAT_TARGETS: spare is in no chain of RAG_CHAT_CHAINS, so nothing asks it" in logged


async def test_metrics_count_requests_by_route_and_status_and_name_nobody(acme: Caller) -> None:
    await acme.search("a question that stays private")
    await acme.send("GET", "/v1/documents/guides/pump.md")

    metrics = (await acme.http.get("/metrics")).text

    assert 'rag_requests_total{route="/v1/search",status="200"}' in metrics
    assert 'route="/v1/documents/{external_id:path}"' in metrics
    assert 'rag_stage_seconds_count{stage="dense"}' in metrics
    assert "private" not in metrics
    assert "pump" not in metrics


@pytest.mark.parametrize(
    ("content", "state"),
    [
        pytest.param(b"# A", "done"),
        (b"\0", "failed"),
    ],
)
async def test_metrics_count_ended_jobs(fake_service: OpenFake, content: bytes, state: str) -> None:
    async def work(services: Services) -> None:
        pipeline = Pipeline(services.database, embedders(), parse_directly)
        await Worker(services.database, pipeline, services.metrics, random.Random(1)).run()

    async with fake_service(background=work) as fake:
        caller = await fake.caller()
        job = await caller.put("a.md", content=content, headers=MARKDOWN)
        metrics = (await fake.http.get("/metrics")).text

    assert job["state"] == state
    assert f'rag_jobs_total{{state="{state}"}} 1.0' in metrics


@pytest.mark.parametrize("path", ["/healthz", "/v1/nothing", "/v1/documents"])
async def test_a_request_id_comes_back_and_each_request_has_one(http: httpx2.AsyncClient, path: str) -> None:
    given = await http.get(path, headers={"X-Request-ID": "job-7.b_3"})
    made = {(await http.get(path)).headers["x-request-id"] for _ in range(2)}

    assert given.headers["x-request-id"] == "job-7.b_3"
    assert len(made) == 2
    assert given.status_code == 200 or given.json()["request_id"] == "job-7.b_3"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, 'a"b', "ä"])
async def test_a_request_id_that_could_spoil_a_log_is_replaced(http: httpx2.AsyncClient, given: str) -> None:
    response = await http.get("/healthz", headers=[(b"X-Request-ID", given.encode())])

    assert response.headers["x-request-id"] not in {"", given}


async def test_a_search_carries_its_request_id(acme: Caller) -> None:
    response = await acme.send("POST", "/v1/search", json={"query": "x"}, headers={"X-Request-ID": "r-9"})

    assert response.json()["request_id"] == response.headers["x-request-id"] == "r-9"


async def test_without_its_database_the_service_says_so_and_comes_back(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        caller = await with_a_document(fake)
        _let_nobody_in(fake.database_url, closed=True)

        gone = await fake.http.get("/readyz")
        refused = await caller.send("POST", "/v1/search", json={"query": QUESTION})
        live = await fake.http.get("/healthz")

        _let_nobody_in(fake.database_url, closed=False)
        back = await _ready_within(fake.http, 15)
        found = await caller.found(QUESTION)

    for response in (gone, refused):
        assert (response.status_code, response.json()["code"]) == (503, "store_unavailable")
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["retry-after"] == "2"
    assert live.status_code == 200
    assert back
    assert found == ["refunds.md"]


@pytest.mark.quiet
async def test_twenty_slow_streams_finish_over_four_connections(fake_service: OpenFake) -> None:
    chat = FakeChat(*ANSWER, delay_s=0.5)
    async with fake_service(chat) as fake:
        caller = await with_a_document(fake)
        started = time.monotonic()

        streams = await asyncio.gather(*(events(caller, QUESTION) for _ in range(20)))

        spent = time.monotonic() - started
    answers = [stream[-1] for stream in streams]
    assert all(name == "done" and body["answer"] == "".join(ANSWER) for name, body in answers)
    assert len(chat.requests) == 20
    assert spent < 6  # one takes 2 s; in fours they would take 10


async def test_a_stream_comes_piece_by_piece(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat(*ANSWER, delay_s=0.3)) as fake:
        caller = await with_a_document(fake)
        headers = {"Authorization": f"Bearer {caller.key}"}
        async with fake.http.stream(
            "POST", "/v1/query", json={"query": QUESTION, "stream": True}, headers=headers
        ) as response:
            arrived = [time.monotonic() async for line in response.aiter_lines() if line == "event: delta"]

    assert len(arrived) == 4
    assert arrived[-1] - arrived[0] > 0.6


async def test_a_model_that_fails_while_it_answers_ends_the_stream_with_an_error(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat("A refund ", error=UpstreamError("the model went away"))) as fake:
        caller = await with_a_document(fake)

        streamed = await events(caller, QUESTION)
        plain = await caller.send("POST", "/v1/query", json={"query": QUESTION})

    assert [name for name, _ in streamed] == ["sources", "delta", "error"]
    error = streamed[-1][1]
    assert (error["status"], error["code"], error["detail"]) == (502, "upstream_error", "the model went away")
    assert error["request_id"] == streamed[0][1]["request_id"]
    assert (plain.status_code, plain.json()["code"]) == (502, "upstream_error")


@pytest.mark.quiet
async def test_an_answer_that_takes_too_long_is_given_up(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat(*ANSWER, delay_s=0.4), request_timeout_s=0.6) as fake:
        caller = await with_a_document(fake)

        streamed = await events(caller, QUESTION)
        plain = await caller.send("POST", "/v1/query", json={"query": QUESTION})

    assert streamed[-1][0] == "error"
    assert streamed[-1][1]["code"] == "deadline_exceeded"
    assert (plain.status_code, plain.json()["code"]) == (504, "deadline_exceeded")


async def test_a_model_that_falls_silent_ends_the_stream_at_the_deadline(fake_service: OpenFake) -> None:
    silence_s = 20.0
    async with fake_service(FakeChat("A ", "refund", delay_s=silence_s), request_timeout_s=2.0) as fake:
        caller = await with_a_document(fake)
        started = time.monotonic()

        streamed = await events(caller, QUESTION)

        assert time.monotonic() - started < silence_s
    assert streamed[-1][1]["code"] == "deadline_exceeded"


async def test_a_caller_that_leaves_a_stream_leaves_nothing_behind(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat(*["word "] * 50, delay_s=0.05)) as fake:
        caller = await with_a_document(fake)
        headers = {"Authorization": f"Bearer {caller.key}"}
        for _ in range(6):
            async with fake.http.stream(
                "POST", "/v1/query", json={"query": QUESTION, "stream": True}, headers=headers
            ) as response:
                await anext(response.aiter_lines())

        assert await caller.found(QUESTION) == ["refunds.md"]


async def test_unsupported_marks_are_taken_out_of_an_answer(fake_service: OpenFake) -> None:
    async with fake_service(FakeChat("A refund takes five days [7]. [1]")) as fake:
        caller = await with_a_document(fake)

        answer = await caller.query(QUESTION)

    assert answer["answer"] == "A refund takes five days. [1]"
    assert [citation["quote"] for citation in answer["citations"]] == ["A refund takes five days."]
    assert answer["usage"] == {"input_tokens": 7, "output_tokens": 1}


@pytest.mark.parametrize("pieces", [[""], ["[7]"], ["The sources do ", "not answer this ", "question."]])
async def test_a_model_that_finds_no_answer_gives_no_evidence(fake_service: OpenFake, pieces: list[str]) -> None:
    async with fake_service(FakeChat(*pieces)) as fake:
        caller = await with_a_document(fake)

        answer = await caller.query(QUESTION)
        streamed = await events(caller, QUESTION)

    assert (answer["status"], answer["model"], answer["answer"]) == ("no_evidence", "fake-chat", "")
    assert answer["usage"]["input_tokens"] == 7  # what was read is paid for
    assert [name for name, _ in streamed] == ["sources", "done"]


def _let_nobody_in(url: str, *, closed: bool) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        connection.execute(allow.format(sql.Identifier(name), sql.Literal(not closed)))
        if closed:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


async def _ready_within(http: httpx2.AsyncClient, seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if (await http.get("/readyz")).status_code == 200:
            return True
        await asyncio.sleep(0.1)
    return False
