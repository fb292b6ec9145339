from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

import rag.store.generations as generations
from ingest.pipeline import Pipeline
from ingest.worker import Worker
from rag.errors import Conflict, InvalidInput, NotFound, UpstreamError
from rag.protocols import Vectors
from rag.store.engine import Database
from rag.store.generations import drop_index, open_next
from rag.store.indexes import index_state
from rag.store.search import count_matching
from rag.telemetry import Metrics
from rag.values import LegResult, Recipe, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeEmbedder, parse_directly
from tests.integration.corpus import NOW, question, scope
from tests.integration.indexes import (
    HANDBOOK,
    LONG,
    OtherEmbedder,
    begin,
    by_name,
    current,
    ids,
    ingest,
    legs_of,
    reindex,
    retriever_of,
    rows,
)
from tests.integration.reading import delete, document
from tests.integration.uploads import job_of, make_due, upload

WITHOUT_BLOCKS = "UPDATE documents SET blocks = NULL WHERE tenant_id = %s AND external_id IN ('boats.md', 'fees.md')"


async def test_the_old_index_answers_until_the_switch_and_the_new_one_after_it(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK | {"long.md": LONG})
    spans = "SELECT count(*) FROM chunks WHERE tenant_id = %s AND generation = %s AND text LIKE 'Sentence%%'"
    seen: list[tuple[str, list[str]]] = []

    async def look() -> None:
        seen.append(((await current(database, tenant)).recipe.embedder, await ids(database, tenant)))

    building = await begin(database, tenant, OtherEmbedder(look))
    await building.catch_up()
    await look()
    await building.switch()
    await look()

    everything = sorted([*HANDBOOK, "long.md"])
    assert seen == [(name, everything) for name in ("fake-embedder", "fake-embedder", "other-embedder")]
    before, after = (owner.execute(spans, (tenant, n)).fetchone() for n in (1, 2))
    assert before is not None
    assert after is not None
    assert after[0] > before[0]  # cut anew for a model that reads less at a time


async def test_the_next_index_can_be_asked_before_the_switch(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, HANDBOOK)
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()

    following = await legs_of(database).dense(tenant, question("zebra", replace(scope(), index="next")), 50)

    assert (following.generation, len(following.ranked)) == (2, len(HANDBOOK))
    assert (await current(database, tenant)).generation == 1


@pytest.mark.usefixtures("small_batches")
async def test_uploads_and_deletes_during_the_build_are_in_the_new_index(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)

    async def meanwhile() -> None:
        changed = {name: f"# New\n\nA walrus is in {name} now." for name in ("refunds.md", "parcels.md", "new.md")}
        await ingest(database, tenant, changed)
        await delete(database, tenant, "fees.md")

    await reindex(database, tenant, OtherEmbedder(meanwhile))

    assert await ids(database, tenant) == ["boats.md", "new.md", "parcels.md", "refunds.md"]
    lexical = await legs_of(database).lexical(tenant, question("zebra"), 50)
    walrus = await legs_of(database).lexical(tenant, question("walrus"), 50)
    assert (len(lexical.ranked), len(walrus.ranked)) == (1, 3)
    assert rows(owner, tenant, "embeddings") == {1: 4, 2: 4}


async def test_a_job_that_embedded_for_the_old_index_runs_again_for_the_new_one(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)

    class Switching(FakeEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            await reindex(database, tenant, OtherEmbedder())
            return await super().embed_documents(texts)

    job_id = await upload(database, tenant, b"# Late\n\nA zebra of its own.", "late.md")
    pipeline = Pipeline(database, by_name(OtherEmbedder(), Switching()), parse_directly)
    worker = Worker(database, pipeline, Metrics(), random.Random(0))
    await worker.run_one()
    first = await job_of(database, tenant, job_id)
    make_due(owner)
    await worker.run_one()

    assert (first.state, first.error_code) == ("queued", "index_mismatch")
    assert (await job_of(database, tenant, job_id)).state == "done"
    assert await ids(database, tenant) == sorted([*HANDBOOK, "late.md"])


async def test_documents_stay_as_they_are(database: Database, tenant: TenantId, owner: psycopg.Connection) -> None:
    await ingest(database, tenant, HANDBOOK, tags=("eu",), metadata={"level": 2}, valid_from=NOW, lang="de", acl=())
    columns = "SELECT (to_jsonb(d) - 'generations')::text FROM documents d WHERE tenant_id = %s ORDER BY external_id"
    before = owner.execute(columns, (tenant,)).fetchall()

    await reindex(database, tenant, OtherEmbedder())

    assert owner.execute(columns, (tenant,)).fetchall() == before
    async with database.tenant(tenant) as tx:
        assert (await index_state(tx)).langs == ("de",)


async def test_versions_kept_as_history_are_in_the_new_index_too(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, {"hotel.md": "The zebra allowance is 120."}, valid_from=NOW.replace(year=2024))
    newer = {"hotel.md": "The zebra allowance is 155."}
    await ingest(database, tenant, newer, keep_history=True, valid_from=NOW.replace(year=2026, month=1))

    await reindex(database, tenant, OtherEmbedder())

    texts = []
    for year in (2025, 2026):
        found = await retriever_of(database).retrieve(tenant, question("zebra", scope(as_of=NOW.replace(year=year))))
        texts.append([hit.chunk.text for hit in found.hits])
    assert texts == [["The zebra allowance is 120."], ["The zebra allowance is 155."]]


async def test_another_recipe_is_not_mixed_into_a_half_built_index(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, HANDBOOK)
    await begin(database, tenant, OtherEmbedder())

    async with database.tenant(tenant) as tx:
        with pytest.raises(Conflict, match=r"index 2 \(other-embedder, .*--restart"):
            await open_next(tx, Recipe("third-embedder", "analyser", "chunker"))


async def test_an_index_dropped_meanwhile_is_not_written_to(database: Database, tenant: TenantId) -> None:
    await ingest(database, tenant, HANDBOOK)

    async def drop() -> None:
        await drop_index(database, tenant, 2)

    with pytest.raises(NotFound, match="no index 2"):
        await reindex(database, tenant, OtherEmbedder(drop))

    assert await ids(database, tenant) == sorted(HANDBOOK)


async def test_documents_without_blocks_are_named_and_nothing_is_switched(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)
    owner.execute(WITHOUT_BLOCKS, (tenant,))
    owner.execute("UPDATE indexes SET chunker = 'older' WHERE tenant_id = %s", (tenant,))

    with pytest.raises(Conflict, match=r"schema 0002.*: boats.md, fees.md\. Nothing was switched\. Ingest them again"):
        await reindex(database, tenant, OtherEmbedder())

    assert (await current(database, tenant)).generation == 1


async def test_documents_without_blocks_keep_their_chunks_when_the_chunker_is_the_same(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, HANDBOOK)
    chunks = "SELECT chunk_id, position, breadcrumb, indexed FROM chunks WHERE tenant_id = %s ORDER BY 1"
    before = owner.execute(chunks, (tenant,)).fetchall()
    owner.execute(WITHOUT_BLOCKS, (tenant,))

    await reindex(database, tenant, OtherEmbedder())

    assert (await current(database, tenant)).generation == 2
    assert owner.execute(chunks.replace("%s", "%s AND generation = 2"), (tenant,)).fetchall() == before


async def test_chunks_that_the_new_embedder_cannot_read_whole_are_not_cut_short(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    await ingest(database, tenant, {"boats.md": LONG})
    owner.execute(WITHOUT_BLOCKS, (tenant,))

    with pytest.raises(Conflict, match=r"boats\.md was cut for an embedder that reads more"):
        await reindex(database, tenant, OtherEmbedder())

    assert (await current(database, tenant)).generation == 1


async def test_chunks_that_the_new_embedder_refuses_are_found_by_words_and_counted(
    database: Database, tenant: TenantId
) -> None:
    class Picky(OtherEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            if any("boat" in text for text in texts):
                raise InvalidInput("no boats")
            return await super().embed_documents(texts)

    await ingest(database, tenant, HANDBOOK)

    building = await reindex(database, tenant, Picky())

    boats = await document(database, tenant, "boats.md")
    assert boats.chunks == 0
    assert [place["reason"] for place in boats.quarantined] == ["the embedder refused it"]
    assert building.progress.without_vector == 1
    assert "boats.md: the chunk at " in building.progress.warnings[0]
    assert len((await legs_of(database).lexical(tenant, question("boat"), 50)).ranked) == 1
    async with database.tenant(tenant) as tx:
        assert await count_matching(tx, scope()) == len(HANDBOOK) - 1


async def test_no_switch_while_a_document_has_chunks_and_no_vector(database: Database, tenant: TenantId) -> None:
    class Picky(OtherEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            if any("boat" in text for text in texts):
                raise InvalidInput("no boats")
            return await super().embed_documents(texts)

    half = "# Half\n\nA zebra rests.\n\n# Other\n\nA zebra boat of its own."
    await ingest(database, tenant, {"fees.md": "A zebra fee.", "half.md": half})
    building = await begin(database, tenant, Picky())
    await building.catch_up()
    before = await building.unembedded()
    await ingest(database, tenant, {"late.md": "A zebra boat comes late."})

    in_the_way = await building.switch_if_embedded()
    kept = (await current(database, tenant)).generation
    await delete(database, tenant, "late.md")
    nothing = await building.switch_if_embedded()

    assert (before, in_the_way, nothing) == ([], ["late.md"], [])
    assert building.progress.without_vector == 2
    assert (kept, (await current(database, tenant)).generation) == (1, 2)


async def test_an_index_of_the_same_embedder_takes_its_vectors_from_the_current_one(
    database: Database, tenant: TenantId
) -> None:
    await ingest(database, tenant, HANDBOOK)
    embedder = FakeEmbedder()

    building = await reindex(database, tenant, embedder)

    assert embedder.embedded == []
    assert (building.progress.embedded, building.progress.reused) == (0, len(HANDBOOK))


@pytest.mark.usefixtures("small_batches")
async def test_building_goes_on_where_it_failed(database: Database, tenant: TenantId) -> None:
    class Failing(OtherEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            self.error = UpstreamError("out of memory") if self.embedded else None
            return await super().embed_documents(texts)

    await ingest(database, tenant, HANDBOOK)
    failing, working = Failing(), OtherEmbedder()

    with pytest.raises(UpstreamError, match="out of memory"):
        await reindex(database, tenant, failing)
    await reindex(database, tenant, working)

    assert (len(failing.embedded), len(working.embedded)) == (2, 2)
    assert {text.splitlines()[0] for text in failing.embedded + working.embedded} == {
        "Refunds", "Parcels", "Fees", "Boats"
    }  # fmt: skip


async def test_many_small_writes_are_merged_before_the_switch(
    database: Database, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "BATCH_DOCUMENTS", 1)
    await ingest(database, tenant, {f"{n}.md": f"A zebra of number {n}." for n in range(20)})
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()
    async with database.tenant(tenant) as tx:
        fragmented = await index_state(tx, 2)

    await building.tidy()

    async with database.tenant(tenant) as tx:
        merged = await index_state(tx, 2)
    assert (fragmented.writes, fragmented.posted) == (20, 20)
    assert (merged.writes, merged.posted, merged.dead) == (0, 20, 0)


async def test_a_lost_connection_does_not_end_the_merging(
    database: Database, tenant: TenantId, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "BATCH_DOCUMENTS", 1)
    await ingest(database, tenant, {f"{n}.md": f"A zebra of number {n}." for n in range(20)})
    building = await begin(database, tenant, OtherEmbedder())
    await building.catch_up()
    cut_off = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    )

    with owner.transaction():
        owner.execute("SELECT 1 FROM tenants WHERE tenant_id = %s FOR UPDATE", (tenant,))
        merging = asyncio.create_task(building.tidy())
        async with asyncio.timeout(20):
            while not owner.execute(cut_off).fetchall():
                await asyncio.sleep(0.02)
    await merging

    async with database.tenant(tenant) as tx:
        assert (await index_state(tx, 2)).writes == 0


WORDS = ["zebra", "walrus", "parcel", "refund", "train", "fee", "boat", "river", "market", "ticket", "window", "garden"]


@pytest.mark.parametrize("seed", range(6))
async def test_a_rebuilt_index_finds_what_a_fresh_one_finds(
    database: Database, tenant: TenantId, make_tenant: MakeTenant, seed: int
) -> None:
    rng = random.Random(seed)

    def text() -> str:
        paragraphs = (" ".join(rng.choices(WORDS, k=rng.randint(3, 60))) for _ in range(rng.randint(1, 6)))
        return f"# {rng.choice(WORDS)}\n\n" + "\n\n".join(f"## {rng.choice(WORDS)}\n\n{p}" for p in paragraphs)

    kept = {f"{n}.md": text() for n in range(12)}
    await ingest(database, tenant, {name: text() for name in kept})
    for name in rng.sample(sorted(kept), 4):
        await ingest(database, tenant, {name: text()})
    await ingest(database, tenant, kept)
    await ingest(database, tenant, {"gone.md": text()})
    await delete(database, tenant, "gone.md")
    fresh = await make_tenant()
    await ingest(database, fresh, kept)

    await reindex(database, tenant, FakeEmbedder())

    for query in [*WORDS, *(" ".join(rng.choices(WORDS, k=4)) for _ in range(10))]:
        for leg in (legs_of(database).dense, legs_of(database).lexical):
            rebuilt, wanted = await leg(tenant, question(query), 50), await leg(fresh, question(query), 50)
            assert _ranking(rebuilt) == _ranking(wanted)


def _ranking(result: LegResult) -> list[tuple[object, float]]:
    return [(ranked.content, pytest.approx(ranked.score, abs=1e-6)) for ranked in result.ranked]
