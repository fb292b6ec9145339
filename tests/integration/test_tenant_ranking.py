from __future__ import annotations

import subprocess
import sys

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb

from rag.errors import InvalidInput, NotFound, StoreError
from rag.inference.turns import asker
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.store.indexes import index_state
from rag.store.tuning import tune
from rag.store.writing import PreparedDocument
from rag.values import Fusion, TenantId, Tuning
from tests.conftest import REPOSITORY, MakeTenant
from tests.fakes import FakeReranker, embedders, unit_vector
from tests.integration.commands import NAME, Run
from tests.integration.corpus import prepared, question, store


@pytest.fixture
async def tuned(make_tenant: MakeTenant, database: Database, owner: psycopg.Connection) -> TenantId:
    """A tenant called NAME with the documents below."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    tenant = await make_tenant(NAME)
    await store(database, tenant, documents())
    return tenant


def documents() -> list[PreparedDocument]:
    """Two on which the legs differ: the words of "boats" are in a.md alone, b.md has its vector."""
    vectors = [unit_vector(text)[np.newaxis] for text in ("trains run", "boats")]
    texts = [("a.md", "boats sail"), ("b.md", "trains run")]
    return [prepared(*text, vectors=vector) for text, vector in zip(texts, vectors, strict=True)]


@pytest.fixture
def tenant_command(database_url: str, process_environment: dict[str, str]) -> Run:
    """Runs `rag tenant` to its end."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rag", "tenant", *arguments],
            cwd=REPOSITORY,
            env={**process_environment, "DATABASE_URL": database_url, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def retriever(database: Database, reranker: FakeReranker | None = None, *, fusion: Fusion = "scores") -> Retriever:
    return Retriever(
        database,
        dense=DenseLeg(database, embedders(), exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=reranker or FakeReranker(),
        ranking=Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=1.0, fusion=fusion),
    )


async def test_a_leg_without_weight_adds_nothing_to_the_tenants_ranking(database: Database, tuned: TenantId) -> None:
    await tune(database, NAME, {"dense_weight": 0.0, "lexical_weight": 1.0})

    found = await retriever(database).retrieve(tuned, question("boats"))

    assert [hit.chunk.external_id for hit in found.hits] == ["a.md"]  # the dense leg has b.md first


async def test_weights_multiply_what_each_leg_gives(database: Database, tuned: TenantId) -> None:
    await tune(database, NAME, {"dense_weight": 2.0, "lexical_weight": 3.0})

    found = await retriever(database).retrieve(tuned, question("boats"))

    assert [(hit.chunk.external_id, hit.fused_score) for hit in found.hits] == [("a.md", 3 / 5), ("b.md", 2 / 5)]


async def test_by_ranks_a_hit_has_the_weighted_sum_of_its_reciprocals(database: Database, tuned: TenantId) -> None:
    await tune(database, NAME, {"dense_weight": 2.0, "lexical_weight": 3.0})

    found = await retriever(database, fusion="rrf").retrieve(tuned, question("boats"))

    first, second = found.hits
    assert (first.chunk.external_id, first.fused_score) == ("a.md", 2 / 62 + 3 / 61)
    assert (second.chunk.external_id, second.fused_score) == ("b.md", 2 / 61)


async def test_each_leg_brings_as_many_as_the_depth_says(database: Database, make_tenant: MakeTenant) -> None:
    tenant = await make_tenant("shallow")
    await store(database, tenant, [prepared(f"{n}.md", f"boat number{n}") for n in range(30)])
    await tune(database, "shallow", {"depth": 10})

    dense = await DenseLeg(database, embedders(), exact_below=10_000)(tenant, question("boat"), 50)
    lexical = await LexicalLeg(database)(tenant, question("boat"), 50)

    assert (len(dense.ranked), len(lexical.ranked)) == (10, 10)


async def test_the_blend_has_the_tenants_weights(database: Database, tuned: TenantId) -> None:
    reranker = FakeReranker(logit=lambda query, text: float("trains" in text))

    await tune(database, NAME, {"dense_weight": 0.5, "rerank_weight": 0.1})
    before = await retriever(database, reranker).retrieve(tuned, question("boats"))
    await tune(database, NAME, {"rerank_weight": 5.0})
    after = await retriever(database, reranker).retrieve(tuned, question("boats"))

    assert [hit.chunk.external_id for hit in before.hits] == ["a.md", "b.md"]
    assert [hit.chunk.external_id for hit in after.hits] == ["b.md", "a.md"]


async def test_another_tenant_is_ranked_as_before(database: Database, tuned: TenantId, make_tenant: MakeTenant) -> None:
    other = await make_tenant()
    await store(database, other, documents())

    await tune(database, NAME, {"dense_weight": 0.0, "lexical_weight": 1.0})

    found = await retriever(database).retrieve(other, question("boats"))
    assert [hit.fused_score for hit in found.hits] == [0.5, 0.5]


async def test_a_new_ranking_is_a_new_version_of_the_index(database: Database, tuned: TenantId) -> None:
    async with database.tenant(tuned) as tx:
        before = (await index_state(tx)).index_version

    await tune(database, NAME, {"depth": 80})
    await tune(database, NAME, {"depth": 80})  # nothing new

    async with database.tenant(tuned) as tx:
        state = await index_state(tx)
    assert (state.index_version, state.tuning) == (before + 1, Tuning(depth=80))


async def test_none_takes_a_value_back_to_the_setting(database: Database, tuned: TenantId) -> None:
    await tune(database, NAME, {"dense_weight": 0.5, "depth": 80})

    assert await tune(database, NAME, {"dense_weight": None}) == Tuning(depth=80)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dense_weight": -1.0}, "dense_weight is a number from 0 to 100, not -1.0"),
        ({"lexical_weight": float("nan")}, "lexical_weight is a number from 0 to 100, not nan"),
        ({"rerank_weight": float("inf")}, "rerank_weight is a number from 0 to 100, not inf"),
        ({"fused_weight": 0.0}, "fused_weight is above 0: what the cross-encoder had no time for has no other rank"),
        ({"depth": 9}, "depth is a whole number from 10 to 500, not 9"),
        ({"depth": 20.5}, "depth is a whole number from 10 to 500, not 20.5"),
        ({"dense_weight": 0.0}, "dense_weight and lexical_weight: one can be 0 only beside another above 0"),
        ({"dense_weight": 0, "lexical_weight": 0}, "dense_weight and lexical_weight: one can be 0 only"),
        ({"weight": 1.0}, "a ranking has no 'weight'"),
        ({"depth": True}, "depth is a number, not 'True'"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_no_ranking_can_have_is_refused_and_changes_nothing(
    database: Database, tuned: TenantId, changes: dict[str, float | None], reason: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await tune(database, NAME, changes)

    assert refused.value.detail.startswith(reason)
    assert await tune(database, NAME, {}) == Tuning()


async def test_a_tenant_that_is_not_there_is_named(database: Database) -> None:
    with pytest.raises(NotFound, match="there is no tenant 'nobody'"):
        await tune(database, "nobody", {"depth": 80})


@pytest.mark.parametrize("stored", [{"dense_weight": "1"}, {"other": 1}, [1]], ids=str)
async def test_a_ranking_that_nothing_of_ours_stored_is_an_error_and_no_guess(
    database: Database, tuned: TenantId, owner: psycopg.Connection, stored: object
) -> None:
    owner.execute("UPDATE tenants SET ranking = %s WHERE tenant_id = %s", (Jsonb(stored), tuned))

    with pytest.raises(StoreError, match="the ranking stored with the tenant cannot be used"):
        await retriever(database).retrieve(tuned, question("boats"))


@pytest.mark.usefixtures("tuned")
def test_the_command_changes_and_prints_the_ranking(tenant_command: Run) -> None:
    changed = tenant_command("set", NAME, "--dense-weight", "0.25", "--depth", "80")
    shown = tenant_command("show", NAME)
    back = tenant_command("set", NAME, "--depth", "default")

    assert changed.stdout.splitlines() == [
        "dense_weight    0.25",
        "lexical_weight  1 (default)",
        "depth           80",
        "rerank_weight   1 (default)",
        "fused_weight    2 (default)",
    ]
    assert shown.stdout == changed.stdout
    assert back.stdout.splitlines()[2] == "depth           50 (default)"


@pytest.mark.usefixtures("tuned")
def test_what_a_tenant_has_not_of_its_own_is_shown_as_the_settings_say_it(tenant_command: Run) -> None:
    shown = tenant_command("show", NAME, RAG_DENSE_WEIGHT="0.5", RAG_SEARCH_DEPTH="100")

    assert shown.stdout.splitlines()[:3] == [
        "dense_weight    0.5 (default)",
        "lexical_weight  1 (default)",
        "depth           100 (default)",
    ]


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--dense-weight", "much"], "rag: dense_weight is a number or `default`, not 'much'\n"),
        (["--depth", "1000"], "rag: depth is a whole number from 10 to 500, not 1000\n"),
        (["--depth", "10.5"], "rag: depth is a number or `default`, not '10.5'\n"),
    ],
    ids=["a word", "too deep", "half a chunk"],
)
def test_the_command_says_what_is_wrong_in_one_line(tenant_command: Run, arguments: list[str], reason: str) -> None:
    refused = tenant_command("set", NAME, *arguments)

    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", reason)


async def test_the_cross_encoder_is_asked_in_the_tenants_name(database: Database, tuned: TenantId) -> None:
    asked: list[TenantId | None] = []
    reranker = FakeReranker(logit=lambda query, text: asked.append(asker.get()) or 0.0)

    await retriever(database, reranker).retrieve(tuned, question("boats"))

    assert asked == [tuned, tuned]
