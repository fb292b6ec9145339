"""Ingestion under kills: whatever dies and whenever, in the end every document is stored once, as in a quiet run."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest

from ingest.patience import patiently
from rag.errors import NotFound
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.store.compaction import compact
from rag.store.documents import delete_document
from rag.store.engine import Database
from rag.store.jobs import Upload, enqueue_run
from rag.store.tenancy import create_tenant
from rag.values import ContentId, RunId, TenantId
from tests.conftest import open_service_database
from tests.fakes import embedders
from tests.integration.corpus import question
from tests.integration.crashing import Machine, running_machine
from tests.integration.stored import Counters, Stored
from tests.integration.uploads import worker_of

DOCUMENTS = 200
WORKERS = 2
KILLS = ["worker"] * 13 + ["postgres"] * 4 + ["backend"] * 3 + ["stall"] * 2
WAVES = 17  # the last kills find less and less to do
PAUSE_S = 0.3  # at most, between a job's begin and the kill
DRAIN_S = 45.0
WORDS = (
    *("zebra", "walrus", "parcel", "refund", "train", "boiler", "invoice"),
    *("harbour", "lantern", "orchid", "puzzle", "quartz", "ribbon", "saddle"),
)
RUN = RunId(uuid4())


@pytest.fixture
def machine(process_environment: dict[str, str], rng: random.Random) -> Iterator[Machine]:
    with running_machine(process_environment, rng) as made:
        yield made


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")  # shown when the test fails
    return random.Random(seed)


class Corpus:
    """What is uploaded and deleted, in waves; and what must be there in the end."""

    def __init__(self, rng: random.Random) -> None:
        names = [f"doc-{n:03}" for n in range(DOCUMENTS)]
        self.bad = set(names[5::20])
        self.deleted = set(names[7::20])
        self.final = {name: text_of(rng, name) for name in names if name not in self.bad | self.deleted}
        twice = [name for name in names[::6] if name in self.final]
        first = [(name, self.final[name]) for name in names if name in self.final and name not in twice]
        first += [(name, text_of(rng, name)) for name in twice]
        first += [(name, b"a\0b") for name in self.bad] + [(name, text_of(rng, name)) for name in self.deleted]
        rng.shuffle(first)
        size = -(-len(first) // WAVES)
        self.waves = [first[at : at + size] for at in range(0, len(first), size)] + [[]]
        for n, wave in enumerate(self.waves[:-1]):  # the second upload comes while the first waits, runs or was written
            self.waves[n + 1] += [(name, self.final[name]) for name, _ in wave if name in twice]
            twice = [name for name in twice if name not in {name for name, _ in wave}]


def text_of(rng: random.Random, name: str) -> bytes:
    """A document of a few chunks, some of which other documents have too."""
    sections = [f"# Part {n}\n\n" + " ".join(rng.choices(WORDS, k=120)) for n in range(rng.randrange(2, 6))]
    shared = "# Imprint\n\n" + f"All rights of the {rng.choice(WORDS)} company are reserved. " * 8
    return "\n\n".join([f"# {name} {rng.random()}", *sections, shared]).encode()


async def put(database: Database, tenant: TenantId, uploads: list[tuple[str, bytes]]) -> None:
    async def ask() -> None:
        async with database.tenant(tenant) as tx:
            await enqueue_run(tx, [Upload(name, "text/markdown", {}, data) for name, data in uploads], RUN)

    await patiently(ask)


async def delete(database: Database, tenant: TenantId, name: str) -> None:
    async def ask() -> None:
        async with database.tenant(tenant) as tx:
            with suppress(NotFound):  # asked again when the answer was lost
                await delete_document(tx, name)

    await patiently(ask)


async def open_jobs(database: Database, tenant: TenantId) -> int:
    async def ask() -> int:
        async with database.tenant(tenant) as tx:
            return sum(
                int(row[1]) for row in await tx.fetch("run_progress", run_id=RUN) if row[0] in {"queued", "running"}
            )

    return await patiently(ask)


async def found_by_both(database: Database, tenant: TenantId) -> list[dict[ContentId, float]]:
    legs = (DenseLeg(database, embedders(), exact_below=10**6), LexicalLeg(database))
    results = [await leg(tenant, question(text), 2000) for text in (*WORDS, " ".join(WORDS)) for leg in legs]
    return [{ranked.content: round(ranked.score, 4) for ranked in result.ranked} for result in results]


async def test_kills_of_workers_and_of_the_database_at_any_moment_lose_nothing_and_double_nothing(
    machine: Machine, rng: random.Random
) -> None:
    corpus, kills = Corpus(rng), rng.sample(KILLS, len(KILLS))
    async with open_service_database(machine.server.url) as database:
        tenant, quiet = await create_tenant(database, "crashing"), await create_tenant(database, "quiet")

        await _under_kills(machine, database, tenant, corpus, kills, rng)
        ended_with = machine.stop_workers()
        await put(database, quiet, list(corpus.final.items()))
        while await worker_of(database).run_one():
            pass

        assert ended_with == [0] * WORKERS
        with psycopg.connect(machine.server.url, autocommit=True) as owner:
            _check_jobs(owner, tenant, corpus)
            assert Counters.told(owner, tenant) == Counters.counted(owner, tenant)
            assert Stored.of(owner, tenant) == Stored.of(owner, quiet)
            for one in (tenant, quiet):
                async with database.tenant(one) as tx:
                    await compact(tx)
            assert Counters.told(owner, tenant) == Counters.told(owner, quiet) == Counters.counted(owner, tenant)
            assert Stored.of(owner, tenant) == Stored.of(owner, quiet)
        assert await found_by_both(database, tenant) == await found_by_both(database, quiet)


async def _under_kills(
    machine: Machine, database: Database, tenant: TenantId, corpus: Corpus, kills: list[str], rng: random.Random
) -> None:
    for _ in range(WORKERS):
        machine.start_worker()
    for n, kill in enumerate(kills):
        wave = corpus.waves[n] if n < len(corpus.waves) else []
        await put(database, tenant, wave)
        for name in corpus.deleted & {name for name, _ in wave}:
            await delete(database, tenant, name)
        async with asyncio.timeout(DRAIN_S):
            await _a_job_begins(machine.server.url)
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        await asyncio.to_thread(machine.kill, kill)
    give_up = time.monotonic() + DRAIN_S
    while await open_jobs(database, tenant):
        assert time.monotonic() < give_up, machine.log.read_text()[-3000:]
        await asyncio.sleep(0.2)


async def _a_job_begins(url: str) -> None:
    """Return when a job has begun after this was called, or none is left that could."""
    since: object = None
    left = True
    while left:
        with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as owner:
            [(now, latest, left)] = owner.execute(
                "SELECT clock_timestamp(), max(stage_at), count(*) > 0 FROM jobs WHERE state IN ('queued', 'running')"
            ).fetchall()
            since = since or now
            if latest and latest > since:
                return
        await asyncio.sleep(0.02)


def _check_jobs(owner: psycopg.Connection, tenant: TenantId, corpus: Corpus) -> None:
    """Each document's last job ended as its last upload must end, and the queue is empty."""
    last = {
        name: ended
        for name, *ended in owner.execute(
            "SELECT DISTINCT ON (external_id) external_id, state, error_code, error_detail FROM jobs"
            " WHERE tenant_id = %s ORDER BY external_id, created_at DESC",
            (tenant,),
        )
    }
    assert owner.execute("SELECT * FROM job_queue").fetchall() == []
    assert {name: last[name] for name in corpus.final if last[name][0] != "done"} == {}
    assert {name for name, ended in last.items() if ended[:2] == ["failed", "invalid_input"]} == corpus.bad
    assert {ended[0] for ended in last.values()} <= {"done", "failed", "cancelled"}
    assert owner.execute("SELECT DISTINCT error_code FROM jobs WHERE state = 'failed'").fetchall() == [
        ("invalid_input",)
    ]
