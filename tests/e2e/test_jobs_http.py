from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx2
import pytest

from ingest.pipeline import Pipeline
from ingest.worker import Worker
from rag.app import Background
from rag.errors import InvalidInput
from rag.protocols import Embedder
from rag.store.tenancy import create_key
from rag.values import tenant_id
from rag.wiring import Services
from tests.e2e.conftest import Caller, FakeService, OpenFake, document
from tests.fakes import embedders, parse_directly
from tests.integration.embedding import GatedEmbedder, PickyEmbedder

LONG = "\n\n".join(f"# Part {n}\n\nA zebra of number {n} eats grass all day and sleeps." for n in range(80))
KEY = {"Idempotency-Key": "upload-1"}


def working(embedder: Embedder) -> Background:
    async def work(services: Services) -> None:
        pipeline = Pipeline(services.database, embedders(embedder), parse_directly)
        await Worker(services.database, pipeline, services.metrics, random.Random(0)).run()

    return work


async def job_once(caller: Caller, job_id: str, **wanted: object) -> dict[str, Any]:
    """The job, once its fields are as *wanted*."""
    async with asyncio.timeout(20):
        while True:
            job: dict[str, Any] = (await caller.send("GET", f"/v1/jobs/{job_id}")).json()
            if all(job[name] == value for name, value in wanted.items()):
                return job
            await asyncio.sleep(0.02)


async def put(caller: Caller, name: str, text: str, headers: dict[str, str] | None = None) -> httpx2.Response:
    return await caller.send("PUT", document(name), json={"text": text}, headers=headers or {})


async def query_only(fake: FakeService, name: str = "fake") -> Caller:
    key = await create_key(fake.database, tenant_id(name), scopes=frozenset({"query"}), groups=frozenset())
    return Caller(fake.http, key)


async def test_a_request_sent_twice_under_one_key_is_one_job_even_when_it_has_ended(newcomer: Caller) -> None:
    first = (await put(newcomer, "a.md", "# One", KEY)).json()
    await job_once(newcomer, first["job_id"], state="done")

    again = await put(newcomer, "a.md", "# One", KEY)

    assert (again.status_code, again.json()) == (202, first)


async def test_another_request_under_a_used_key_is_a_conflict(newcomer: Caller) -> None:
    first = (await put(newcomer, "a.md", "# One", KEY)).json()

    refused = await put(newcomer, "a.md", "# Two", KEY)

    await job_once(newcomer, first["job_id"], state="done")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await newcomer.document("a.md"))["text"] == "One"


async def test_an_idempotency_key_of_another_tenant_is_free(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        one, other = await fake.caller("one"), await fake.caller("other")

        answers = [await put(one, "a.md", "# One", KEY), await put(other, "a.md", "# Two", KEY)]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["job_id"] != answers[1].json()["job_id"]


@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_an_idempotency_key_that_is_none_is_refused(newcomer: Caller, key: str) -> None:
    assert (await put(newcomer, "a.md", "# One", {"Idempotency-Key": key})).status_code == 422


async def test_a_job_shows_its_stage_its_progress_and_how_many_are_before_it(fake_service: OpenFake) -> None:
    embedder = GatedEmbedder("zebra")
    async with fake_service(background=working(embedder)) as fake:
        caller = await fake.caller()
        large = (await put(caller, "large.md", LONG)).json()["job_id"]
        begun = await job_once(caller, large, stage="embedding")
        embedder.gate.release()
        await asyncio.sleep(0.6)  # over the time between two looks
        embedder.gate.release()
        async with asyncio.timeout(20):
            while (half_way := await job_once(caller, large))["progress"]["chunks_done"] < 64:
                await asyncio.sleep(0.02)
        embedder.gate.release()
        done = await job_once(caller, large, state="done")

    none = {"chunks_per_s": None, "eta_s": None}
    assert begun["progress"] == {"chunks_done": 0, "chunks_total": 80, **none}
    assert (half_way["state"], half_way["ahead"]) == ("running", None)
    assert half_way["progress"]["chunks_per_s"] > 0
    assert half_way["progress"]["eta_s"] == pytest.approx(16 / half_way["progress"]["chunks_per_s"])
    assert (done["stage"], done["chunks"], done["warnings"]) == ("done", 80, [])
    assert done["progress"] == {"chunks_done": 80, "chunks_total": 80, **none}


async def test_waiting_jobs_say_how_many_are_before_them(fake_service: OpenFake) -> None:
    async with fake_service() as fake:  # no worker runs beside it
        caller, other = await fake.caller("one"), await fake.caller("other")
        await put(other, "x.md", "# Of another tenant")
        jobs = [(await put(caller, f"{n}.md", f"# {n}")).json()["job_id"] for n in range(3)]

        ahead = [(await job_once(caller, job))["ahead"] for job in jobs]

    assert ahead == [0, 1, 2]


async def test_a_chunk_that_the_embedder_refuses_is_told_of_by_job_and_document(fake_service: OpenFake) -> None:
    embedder = PickyEmbedder("unspeakable", InvalidInput("no token of it is known"))
    text = "# One\n\nA zebra eats grass.\n\n# Two\n\nThis is unspeakable."
    async with fake_service(background=working(embedder)) as fake:
        caller = await fake.caller()

        job = await caller.put("a.md", json={"text": text})

        stored, found = await caller.document("a.md"), await caller.found("unspeakable")
    assert (job["state"], job["chunks"]) == ("done", 1)
    assert "no token of it is known" in job["warnings"][0]
    [quarantined] = stored["quarantined"]
    assert quarantined["reason"] == "no token of it is known"
    assert "unspeakable" in stored["text"][quarantined["start"] : quarantined["end"]]
    assert "a.md" in found


async def test_a_document_is_shown_as_it_comes_only_to_those_who_upload_and_only_in_its_tenant(
    fake_service: OpenFake,
) -> None:
    embedder = GatedEmbedder("zebra")
    async with fake_service(background=working(embedder)) as fake:
        caller, other = await fake.caller(), await fake.caller("other")
        reader = await query_only(fake)
        job_id = (await put(caller, "a.md", "A zebra.")).json()["job_id"]
        await job_once(caller, job_id, stage="embedding")

        running = (await caller.send("GET", document("a.md"))).json()
        hidden = [(await one.send("GET", document("a.md"))).status_code for one in (reader, other)]
        embedder.gate.release()
        await job_once(caller, job_id, state="done")

        ready = [(await one.send("GET", document("a.md"))).status_code for one in (caller, reader, other)]
    assert (running["status"], running["job_id"], running["external_id"]) == ("running", job_id, "a.md")
    assert hidden == [404, 404]
    assert ready == [200, 200, 404]


async def test_a_document_that_waits_is_queued_and_one_whose_upload_was_cancelled_is_none(
    fake_service: OpenFake,
) -> None:
    async with fake_service() as fake:  # no worker runs beside it
        caller = await fake.caller()
        job_id = (await put(caller, "a.md", "A zebra.")).json()["job_id"]

        waiting = (await caller.send("GET", document("a.md"))).json()
        await caller.send("POST", f"/v1/jobs/{job_id}/cancel")
        cancelled = await caller.send("GET", document("a.md"))

    assert (waiting["status"], waiting["job_id"], waiting["detail"]) == ("queued", job_id, None)
    assert cancelled.status_code == 404


async def test_another_tenants_job_cannot_be_seen_or_cancelled(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        caller, other = await fake.caller("one"), await fake.caller("other")
        job_id = (await put(caller, "a.md", "A zebra.")).json()["job_id"]

        answers = [
            await other.send("GET", f"/v1/jobs/{job_id}"),
            await other.send("POST", f"/v1/jobs/{job_id}/cancel"),
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert (await job_once(caller, job_id))["state"] == "queued"
