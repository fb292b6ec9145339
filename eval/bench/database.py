"""A throwaway embedded PostgreSQL: databases in it, filled quickly and then left at rest."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from eval.bench.synthetic import Chunks, Corpus
from eval.errors import CannotRun
from rag.analysis import ANALYSER
from rag.errors import RagError
from rag.store.compaction import compact
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import Database, open_database
from rag.store.migration import migrate
from rag.store.neighbours import GRAPH_FROM
from rag.store.tenancy import create_tenant
from rag.store.writing import replace_documents
from rag.values import Recipe, TenantId

POOL_SIZE = 4
# nothing here outlives the run; and whoever measures says himself when tables are vacuumed
SETTINGS = ("fsync = off", "full_page_writes = off", "autovacuum = off", "max_wal_size = '8GB'")
UNCHECKED = "&options=-c%20session_replication_role%3Dreplica"  # foreign keys hold by construction
GRAPH_BYTES = 2500  # of memory for each vector while a graph is built
MIB = 1024 * 1024
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, not written


@dataclass(frozen=True, slots=True)
class Store:
    """A database, by the service's connections, by others that check no foreign keys, and by its owner's."""

    database: Database
    filling: Database
    owner: psycopg.Connection

    async def fill(self, name: str, corpus: Corpus, parts: Iterable[Chunks], *, embedder: str) -> TenantId:
        """A new tenant with all *parts* in both legs, as ingestion and compaction leave them, but for the graph."""
        tenant = await create_tenant(self.database, name)
        recipe = recipe_of(embedder)
        writes = 0
        for part in parts:
            async with self.filling.tenant(tenant) as tx:
                await replace_documents(tx, corpus.prepared(part), recipe)
            writes += 1
        if writes > 1:  # a single one leaves full blocks
            async with self.filling.tenant(tenant) as tx:
                await compact(tx)
        return tenant

    def graph(self, *, above: int = GRAPH_FROM) -> None:
        """Put the vectors of every index of more than *above* chunks into the graph, built anew in one go."""
        large = "SELECT tenant_id, posted - dead FROM indexes WHERE posted - dead > %s"
        found = self.owner.execute(large, (above,)).fetchall()
        if not found:
            return
        tenants, vectors = [row[0] for row in found], sum(int(row[1]) for row in found)
        _say(f"building the graph of {vectors:,} vectors")
        room = vectors * GRAPH_BYTES // MIB + 64
        workers = (os.cpu_count() or 1) - 1 if _shared_mib() > room else 0
        with self.owner.transaction():
            [(definition,)] = self.owner.execute("SELECT pg_get_indexdef('ix_neighbours_hnsw'::regclass)").fetchall()
            self.owner.execute("DROP INDEX ix_neighbours_hnsw")
            self.owner.execute(
                "INSERT INTO neighbours (tenant_id, ord, embedding)"
                " SELECT tenant_id, ord, embedding FROM embeddings WHERE tenant_id = ANY(%s)",
                (tenants,),
            )
            self.owner.execute("SELECT set_config('maintenance_work_mem', %s, true)", (f"{room}MB",))
            self.owner.execute("SELECT set_config('max_parallel_maintenance_workers', %s, true)", (str(workers),))
            self.owner.execute(definition.replace(" ON ONLY ", " ON "))  # of all partitions
            self.owner.execute("UPDATE indexes SET graphed = true WHERE tenant_id = ANY(%s)", (tenants,))

    def settle(self) -> None:
        """Vacuum and analyse, as autovacuum would have by now."""
        self.owner.execute("VACUUM (ANALYZE)")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str

    def url_of(self, name: str) -> str:
        """The address of one of its databases."""
        return self.url.replace("/postgres?", f"/{name}?")

    @asynccontextmanager
    async def new(self, name: str) -> AsyncIterator[Store]:
        """A new database, gone afterwards."""
        self._command("CREATE DATABASE {}", name)
        try:
            async with self.open(name) as store:
                yield store
        finally:
            self._command("DROP DATABASE {} WITH (FORCE)", name)

    @asynccontextmanager
    async def open(self, name: str = "postgres") -> AsyncIterator[Store]:
        """A database that is there, brought to the schema of this code."""
        url = self.url_of(name)
        migrate(url)
        async with (
            open_database(url, size=POOL_SIZE, timeout_s=60) as database,
            open_database(url + UNCHECKED, size=POOL_SIZE, timeout_s=60) as filling,
        ):
            with psycopg.connect(url, autocommit=True) as owner:
                yield Store(database, filling, owner)

    def _command(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def server_in(home: Path) -> Iterator[Server]:
    """The embedded server of a throwaway RAG_HOME; a `rag` there uses it too.

    Raises CannotRun when it does not start, or does not do what it is told.
    """
    postgres = EmbeddedPostgres(home)
    try:
        postgres.start()
        try:
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                for setting in SETTINGS:
                    connection.execute(sql.SQL("ALTER SYSTEM SET " + setting))
                connection.execute("SELECT pg_reload_conf()")
            yield Server(postgres.url)
        finally:
            # at once: writing everything out first takes long, for files about to be deleted
            os.kill(int((home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            postgres.stop()
    except (RagError, psycopg.Error) as exc:
        raise CannotRun(f"{type(exc).__name__}: {exc}") from exc


@contextmanager
def throwaway_server() -> Iterator[Server]:
    """A server that is gone afterwards with all it holds."""
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder, server_in(Path(folder)) as server:
        yield server


def recipe_of(embedder: str) -> Recipe:
    """What the indexes here are made with."""
    return Recipe(embedder, ANALYSER, "synthetic")


def _shared_mib() -> int:
    """The shared memory that parallel workers may use: little in many a container."""
    return shutil.disk_usage(SHARED_MEMORY).free // MIB if SHARED_MEMORY.exists() else 0


def _say(what: str) -> None:
    sys.stderr.write(what + "\n")
