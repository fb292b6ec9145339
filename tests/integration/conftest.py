from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

import rag.store.generations as generations
from rag.inference.onnx import OnnxEmbedder
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.store.engine import Database
from rag.values import TenantId
from tests.conftest import REPOSITORY, MakeTenant, open_service_database
from tests.fakes import embedders
from tests.integration.caching import FEES, REFUNDS
from tests.integration.commands import NAME, Run, Start
from tests.integration.corpus import store
from tests.integration.demo import Demo
from tests.integration.reading import Legs


@pytest_asyncio.fixture(scope="session")
async def demo(clone: Callable[[], str], embedder: OnnxEmbedder) -> AsyncIterator[Demo]:
    """The demo corpus with the real embedder."""
    async with open_service_database(clone()) as opened:
        yield await Demo.filled(opened, embedder)


@pytest.fixture
def legs(database: Database) -> Legs:
    return Legs(DenseLeg(database, embedders(), exact_below=10_000), LexicalLeg(database))


@pytest.fixture
async def start(
    make_tenant: MakeTenant, owner: psycopg.Connection, database_url: str, process_environment: dict[str, str]
) -> Start:
    """Starts a `rag` command as a shell would, for a tenant called NAME."""
    owner.execute("DELETE FROM tenants WHERE name = %s", (NAME,))
    await make_tenant(NAME)
    environment = {**process_environment, "DATABASE_URL": database_url}

    def begin(*arguments: str | Path, models: Path | None = None, **changed: str) -> subprocess.Popen[str]:
        own = {**environment, **changed}
        return subprocess.Popen(
            [sys.executable, "-m", "rag", *map(str, arguments), "--tenant", NAME],
            cwd=REPOSITORY,
            env={**own, "RAG_MODELS_DIR": str(models)} if models else own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


@pytest.fixture
def run(start: Start) -> Run:
    """Runs a `rag` command to its end."""

    def finish(*arguments: str | Path, models: Path | None = None, **changed: str) -> subprocess.CompletedProcess[str]:
        with start(*arguments, models=models, **changed) as process:
            try:
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return finish


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reindexing reads two documents at a time, and dropping goes in small steps."""
    monkeypatch.setattr(generations, "BATCH_DOCUMENTS", 2)
    monkeypatch.setattr(generations, "DROPPED_DOCUMENTS", 2)
    monkeypatch.setattr(generations, "DROPPED_BLOCKS", 3)


@pytest.fixture
async def filled(database: Database, tenant: TenantId) -> TenantId:
    """A tenant with two documents that answer one question."""
    await store(database, tenant, [REFUNDS, FEES])
    return tenant
