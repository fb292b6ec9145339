"""What tests share: one embedded PostgreSQL, a migrated template that is cloned in no time, tenants, real models."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from rag.inference.model_store import DEFAULT_FILES
from rag.inference.onnx import OnnxEmbedder, OnnxReranker
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import Database, open_database
from rag.store.migration import migrate, self_test
from rag.store.tenancy import create_tenant
from rag.telemetry import configure_logging
from rag.values import TenantId
from tests.directories import short_lived

TEMPLATE = "rag_template"
POOL_SIZE = 4
THREADS = os.cpu_count() or 1
REPOSITORY = Path(__file__).parents[1]

MakeTenant = Callable[..., Awaitable[TenantId]]


@pytest.fixture(scope="session", autouse=True)
def plain_log() -> None:
    """Log events as the service writes them: drawing a traceback with its locals takes seconds."""
    configure_logging("info")


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedPostgres]:
    """A running PostgreSQL of this test run's own, migrated template included."""
    with short_lived("rag-tests-") as home:
        postgres = EmbeddedPostgres(home)
        postgres.start()
        try:
            _on_server(postgres, "ALTER SYSTEM SET fsync = off")  # nothing here outlives the run
            _on_server(postgres, "SELECT pg_reload_conf()")
            _on_server(postgres, "CREATE DATABASE {}", TEMPLATE)
            migrate(url_of(postgres, TEMPLATE))
            yield postgres
        finally:
            # at once: writing everything out first takes seconds, for files about to be deleted
            os.kill(int((home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            postgres.stop()


@pytest.fixture(scope="session")
def clone(server: EmbeddedPostgres) -> Callable[[], str]:
    """Makes a fresh, migrated, empty database and returns its owner's URL."""
    numbers = count(1)

    def cloned() -> str:
        name = f"clone_{next(numbers)}"
        # as files: what is written to the log as well takes room twice
        _on_server(server, "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, TEMPLATE)
        return url_of(server, name)

    return cloned


@pytest.fixture(scope="session")
def drop(server: EmbeddedPostgres) -> Callable[[str], None]:
    """Deletes the database of a URL that `clone` has made, since memory holds no hundreds of them."""

    def dropped(url: str) -> None:
        _on_server(server, "DROP DATABASE {} WITH (FORCE)", str(conninfo_to_dict(url)["dbname"]))

    return dropped


@pytest.fixture(scope="module")
def database_url(clone: Callable[[], str], drop: Callable[[str], None]) -> Iterator[str]:
    """The owner's URL of the module's database."""
    url = clone()
    yield url
    drop(url)


@pytest_asyncio.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[Database]:
    """The module's database in the service's role; tenants keep its tests apart."""
    async with open_service_database(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def owner(database_url: str) -> Iterator[psycopg.Connection]:
    """A superuser's connection to the module's database: no row-level security."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def tenant_names() -> Iterator[str]:
    """Names that no test of this run has used."""
    return (f"tenant-{number}" for number in count(1))


@pytest_asyncio.fixture
async def make_tenant(database: Database, tenant_names: Iterator[str]) -> MakeTenant:
    """Makes a tenant in the module's database, by default of a name of its own."""

    async def make(name: str | None = None) -> TenantId:
        return await create_tenant(database, name or next(tenant_names))

    return make


@pytest_asyncio.fixture
async def tenant(make_tenant: MakeTenant) -> TenantId:
    """A tenant of the test's own, empty."""
    return await make_tenant()


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the real models. A test that needs them fails without them; it is never skipped."""
    home = Path(os.environ.get("RAG_HOME", REPOSITORY / ".rag"))
    folder = Path(os.environ.get("RAG_MODELS_DIR", home / "models")).absolute()
    missing = [file.path for file in DEFAULT_FILES if not (folder / file.path).is_file()]
    if missing:
        pytest.fail(f"{', '.join(missing)} missing in {folder}; run `rag models pull`")
    return folder


@pytest.fixture(scope="session")
def embedder(models: Path) -> OnnxEmbedder:
    """The real embedder."""
    return OnnxEmbedder(models / "bge_small_en", THREADS)


@pytest.fixture(scope="session")
def reranker(models: Path) -> OnnxReranker:
    """The real cross-encoder."""
    return OnnxReranker(models / "reranker_en", THREADS)


@pytest.fixture(scope="session")
def process_environment(models: Path) -> dict[str, str]:
    """The environment for a `rag` process: this one's without its settings, with the models."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_") and name != "DATABASE_URL"}
    return {**kept, "RAG_MODELS_DIR": str(models), "PYTHONPATH": str(REPOSITORY)}


@asynccontextmanager
async def open_service_database(url: str) -> AsyncIterator[Database]:
    async with open_database(url, size=POOL_SIZE, timeout_s=10.0) as opened:
        await self_test(opened)
        yield opened


def url_of(server: EmbeddedPostgres, name: str) -> str:
    return server.url.replace("/postgres?", f"/{name}?")


def _on_server(server: EmbeddedPostgres, statement: str, *names: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
