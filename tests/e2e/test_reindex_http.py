"""A tenant's index and the models of the service that is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from ingest.pipeline import Pipeline, Source
from rag.inference.onnx import OnnxEmbedder
from rag.store.engine import Database
from rag.values import TenantId, tenant_id
from tests.conftest import REPOSITORY, MakeTenant
from tests.e2e.conftest import OpenFake
from tests.fakes import embedders, parse_directly
from tests.integration.indexes import OtherEmbedder, begin, by_name, current, ingest

NAME = "judged"
CORPUS = {
    "refunds.md": "# Refunds\n\nA refund takes five business days after it is approved.\n",
    "pump.md": "# Pump\n\nChange the oil of the pump every 500 hours.\n",
    "salaries.md": "---\nacl: [hr]\n---\n# Salaries\n\nThe salary band B7 starts at 71,000 EUR a year.\n",
}
GOLD = (
    ("How long does a refund take?", "refunds.md", "takes five business days", []),
    ("How often is the oil of the pump changed?", "pump.md", "every 500 hours", []),
    ("Where does the salary band B7 start?", "salaries.md", "starts at 71,000 EUR", ["hr"]),
)

Reindex = Callable[..., subprocess.CompletedProcess[str]]


async def test_a_service_without_the_embedder_of_an_index_says_so(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        caller = await fake.caller("elsewhere")
        tenant = tenant_id("elsewhere")
        await ingest(fake.database, tenant, {"zebra.md": "A zebra walks."}, by_name(OtherEmbedder()))

        responses = [await caller.send("POST", path, json={"query": "zebra"}) for path in ("/v1/search", "/v1/query")]

    for response in responses:
        assert (response.status_code, response.json()["code"]) == (503, "index_mismatch")
        assert "other-embedder" in response.json()["detail"]


async def test_the_next_index_is_asked_by_name_while_it_is_built(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        caller = await fake.caller("building")
        tenant = tenant_id("building")
        await ingest(fake.database, tenant, {"zebra.md": "A zebra walks."})
        none = await caller.send("POST", "/v1/search", json={"query": "zebra", "index": "next"})
        building = await begin(fake.database, tenant, OtherEmbedder())
        await building.catch_up()

        unknown = await caller.send("POST", "/v1/search", json={"query": "zebra", "index": "next"})
        found = await caller.found("zebra")

    assert (none.status_code, none.json()["code"]) == (404, "not_found")
    assert (unknown.status_code, unknown.json()["code"]) == (503, "index_mismatch")
    assert found == ["zebra.md"]


@pytest.fixture
async def judged(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection, embedder: OnnxEmbedder
) -> TenantId:
    """A tenant called NAME that holds CORPUS."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    tenant = await make_tenant(NAME)
    sources = [Source(name, text.encode()) for name, text in CORPUS.items()]
    await Pipeline(database, embedders(embedder), parse_directly).ingest(tenant, sources)
    return tenant


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Questions over CORPUS, one of which only a group can answer, and one of another tenant."""
    gold = [
        {"id": f"q{n}", "tenant": NAME, "type": "paraphrase", "question": question, "groups": groups,
         "gold": [{"document": name, "passage": passage}]}
        for n, (question, name, passage, groups) in enumerate(GOLD)
    ]  # fmt: skip
    gold.append({**gold[0], "id": "elsewhere", "tenant": "another"})
    for tenant in (NAME, "another"):
        (folder := tmp_path / "corpus" / tenant).mkdir(parents=True)
        for name, text in CORPUS.items():
            (folder / name).write_text(text)
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"corpus": "corpus", "questions": gold}))
    path.with_suffix(".thresholds.json").write_text('{"recall@5": {"min": 0.9}, "leak_rate": {"max": 0}}')
    return path


@pytest.fixture
def run(process_environment: dict[str, str], database_url: str, suite: Path) -> Reindex:
    """Runs `rag reindex --anyway` with the suite, which asks both indexes."""

    def reindex(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rag", "reindex", "--tenant", NAME, "--anyway", "--suite", str(suite)]
        environment = {**process_environment, "DATABASE_URL": database_url}
        return subprocess.run(
            [*command, *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    return reindex


async def test_an_index_that_answers_as_well_is_switched_to(
    run: Reindex, database: Database, judged: TenantId, owner: psycopg.Connection
) -> None:
    done = run()

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("# Evaluation of 3 questions: passed") == 2
    assert "3 questions in both, 0 new, 0 gone." in done.stdout
    assert (await current(database, judged)).generation == 2
    assert owner.execute("SELECT count(*) FROM keys WHERE tenant_id = %s", (judged,)).fetchone() == (0,)


async def test_an_index_that_answers_worse_stays_for_a_look_unless_it_is_forced(
    run: Reindex, database: Database, judged: TenantId, owner: psycopg.Connection, embedder: OnnxEmbedder
) -> None:
    await (await begin(database, judged, embedder)).catch_up()
    owner.execute("DELETE FROM chunks WHERE tenant_id = %s AND generation = 2", (judged,))

    refused = run("--json")
    before = await current(database, judged)
    forced = run("--json", "--force")

    told = json.loads(refused.stdout)
    assert refused.returncode == 1
    assert (told["state"], told["index"], before.generation) == ("worse", 2, 1)
    assert told["suite"]["worse"] == ["overall: recall@5"]
    assert (told["suite"]["current"]["recall@5"], told["suite"]["next"]["recall@5"]) == (1.0, 0.0)
    assert refused.stderr.count("# Evaluation of 3 questions") == 2
    assert (forced.returncode, json.loads(forced.stdout)["state"]) == (0, "switched")
    assert (await current(database, judged)).generation == 2
    assert owner.execute("SELECT count(*) FROM keys WHERE tenant_id = %s", (judged,)).fetchone() == (0,)


async def test_a_suite_that_asks_nothing_of_the_tenant_is_refused_before_anything_is_built(
    run: Reindex, judged: TenantId, owner: psycopg.Connection, suite: Path
) -> None:
    suite.write_text(suite.read_text().replace(NAME, "another"))

    done = run()

    assert (done.returncode, done.stderr) == (1, f"rag: {suite} asks nothing of tenant {NAME}\n")
    assert owner.execute("SELECT count(*) FROM indexes WHERE tenant_id = %s", (judged,)).fetchone() == (1,)
