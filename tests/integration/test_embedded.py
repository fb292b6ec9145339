from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from rag.errors import SetupError, StoreError, StoreUnavailable
from rag.settings import Settings
from rag.store.embedded import EmbeddedPostgres
from rag.store.engine import Database
from rag.store.migration import migrate
from rag.store.opening import open_store
from rag.store.tenancy import create_tenant, find_tenant
from rag.values import TenantId
from tests.conftest import REPOSITORY
from tests.directories import short_lived

USER = """
import sys
from pathlib import Path
from rag.store.embedded import EmbeddedPostgres

server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print("started", flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def new_home(suffix: str = "") -> Iterator[Path]:
    with short_lived("rag-home-") as folder:
        home = Path(folder, suffix)
        try:
            yield home
        finally:
            if left := postmaster(home):  # a failed test may leave it running
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A data folder of this module's own, already made; every test leaves it stopped."""
    with new_home() as folder:
        server = EmbeddedPostgres(folder)
        server.start()
        server.stop()
        yield folder


@contextmanager
def other_process(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(home)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process


def postmaster(home: Path) -> int:
    """The server's process id as it wrote it down; 0 where it has not."""
    try:
        return int((home / "postgres" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return 0


def settings_of(home: Path, url: str | None = None) -> Settings:
    return Settings(home=home, database_url=None if url is None else SecretStr(url), pool_size=2, pool_timeout_s=3.0)


async def open_and_close(settings: Settings) -> None:
    async with open_store(settings):
        pass


def test_starting_twice_in_one_process_is_one_use(home: Path) -> None:
    server = EmbeddedPostgres(home)

    server.start()
    server.start()
    server.stop()

    assert not server.accepts()
    server.stop()  # nothing left to do


def test_the_last_process_to_leave_stops_the_server(home: Path) -> None:
    server = EmbeddedPostgres(home)

    with other_process(home) as first:
        with other_process(home) as second:
            pid = postmaster(home)
            second.communicate()
            after_the_second = server.accepts(), postmaster(home)
        first.communicate()

    assert after_the_second == (True, pid)
    assert not server.accepts()
    assert not (home / "postgres" / "postmaster.pid").exists()


def test_processes_that_start_at_once_share_one_server(home: Path) -> None:
    servers = [EmbeddedPostgres(home) for _ in range(4)]

    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running = [server.accepts() for server in servers]
    for server in servers:
        server.stop()

    assert running == [True] * 4
    assert not servers[0].accepts()


def test_a_killed_user_leaves_nothing_stale(home: Path) -> None:
    with other_process(home) as process:
        process.kill()
    server = EmbeddedPostgres(home)
    left_running = server.accepts()

    server.start()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.stop()

    assert left_running
    assert not server.accepts()


def test_a_server_killed_while_nobody_looked_starts_again_with_its_data(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    os.kill(postmaster(home), signal.SIGKILL)
    server.stop()

    server.start()
    with psycopg.connect(server.url) as connection:
        found = connection.execute("SELECT n FROM kept").fetchone()
    server.stop()

    assert found == (7,)


def test_only_its_own_user_may_connect(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.start()
    with psycopg.connect(server.url) as connection:
        addresses = connection.execute("SHOW listen_addresses").fetchone()
    mode = Path(home, "postgres").stat().st_mode & 0o777
    server.stop()

    assert addresses == ("",)
    assert mode == 0o700


async def test_the_store_works_again_after_the_server_was_killed(home: Path) -> None:
    async with open_store(settings_of(home)) as database:
        await create_tenant(database, "survivor")
        killed, killed_at = postmaster(home), time.monotonic()
        os.kill(killed, signal.SIGKILL)

        while postmaster(home) in (0, killed):  # before, a connection may still answer that does not know yet
            await asyncio.sleep(0.05)
        tenant = await eventually(database, "survivor")
        took_s = time.monotonic() - killed_at

    assert tenant
    assert took_s < 15
    assert not EmbeddedPostgres(home).accepts()


async def eventually(database: Database, name: str) -> TenantId:
    """The tenant, once the database answers; until then it says that it is unavailable."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await find_tenant(database, name)
            except StoreUnavailable:
                await asyncio.sleep(0.1)


def test_data_may_lie_at_a_long_and_awkward_path_in_a_folder_that_is_closed_to_others() -> None:
    with new_home("closed/" + "x" * 100 + "/with a blank and 'quotes'") as home:
        home.parents[1].mkdir(mode=0o700)
        server = EmbeddedPostgres(home)

        server.start()
        with psycopg.connect(server.url) as connection:
            data = connection.execute("SHOW data_directory").fetchone()
        server.stop()

        assert data == (str(home / "postgres"),)
        assert not server.accepts()
        assert home.parents[1].stat().st_mode & 0o066 == 0  # to walk through, not to read


async def test_a_given_database_is_used_and_nothing_embedded_starts(clone: Callable[[], str], tmp_path: Path) -> None:
    async with (
        open_store(settings_of(tmp_path / "home", clone())) as database,
        database.bare() as connection,
    ):
        cursor = await connection.execute("SELECT current_database()::text")
        name = await cursor.fetchone()

    assert name is not None
    assert name[0].startswith("clone_")
    assert not (tmp_path / "home").exists()


async def test_an_empty_database_is_migrated_when_the_store_opens(clone: Callable[[], str], tmp_path: Path) -> None:
    url = clone()
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")

    async with open_store(settings_of(tmp_path, url)) as database:
        await create_tenant(database, "first")

    assert migrate(url) is False


async def test_starts_at_the_same_moment_migrate_once(clone: Callable[[], str]) -> None:
    url = clone()
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")

    changed = await asyncio.gather(*(asyncio.to_thread(migrate, url) for _ in range(3)))

    assert any(changed)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


@pytest.mark.parametrize("version", ["0.7.4", "0.8.3", "0.8"])
async def test_a_database_with_an_old_pgvector_is_refused(
    clone: Callable[[], str], tmp_path: Path, version: str
) -> None:
    url = clone()
    with psycopg.connect(url) as connection:  # the wheel has one version only, so the catalogue is made to say another
        connection.execute("UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'", (version,))

    with pytest.raises(SetupError, match=rf"0\.8\.4 or newer is needed, this database has {version}"):
        await open_and_close(settings_of(tmp_path, url))


async def test_a_database_without_pgvector_is_refused(clone: Callable[[], str], tmp_path: Path) -> None:
    url = clone()
    with psycopg.connect(url) as connection:  # hides what the wheel has installed
        connection.execute("CREATE SCHEMA hiding")
        connection.execute(
            "CREATE VIEW hiding.pg_available_extensions AS"
            " SELECT * FROM pg_catalog.pg_available_extensions WHERE name <> 'vector'"
        )

    with pytest.raises(SetupError, match="has no pgvector"):
        await open_and_close(settings_of(tmp_path, f"{url}&options=-csearch_path%3Dhiding,pg_catalog,public"))


async def refused(url: str, home: Path) -> float:
    """Seconds until the store says that the database cannot be reached."""
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        await open_and_close(settings_of(home, url))
    assert "secret" not in caught.value.detail
    return time.monotonic() - started


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:secret@127.0.0.1:1/rag",
        "postgresql://app:secret@no-such-host.invalid/rag",
        "postgresql://app:secret@/rag?host=/no/such/folder",
    ],
)
async def test_an_address_without_a_database_is_unavailable_within_seconds(url: str, tmp_path: Path) -> None:
    assert await refused(url, tmp_path) < 20


async def test_a_database_that_does_not_exist_is_unavailable(clone: Callable[[], str], tmp_path: Path) -> None:
    assert await refused(clone().replace("/clone_", "/absent_"), tmp_path) < 20


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", None])
async def test_a_server_that_is_no_database_or_says_nothing_is_unavailable_within_seconds(
    tmp_path: Path, answer: bytes | None
) -> None:
    open_ends: list[asyncio.StreamWriter] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        open_ends.append(writer)
        if answer is not None:
            writer.write(answer)
            writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        try:
            took_s = await asyncio.wait_for(refused(f"postgresql://app:secret@127.0.0.1:{port}/rag", tmp_path), 15)
        finally:
            for writer in open_ends:
                writer.close()

    assert took_s < 15


@pytest.mark.parametrize("url", ["not a url", "mysql://app:secret@127.0.0.1/rag", "postgresql://[", ""])
async def test_a_text_that_is_no_database_address_is_one_clear_error(url: str, tmp_path: Path) -> None:
    with pytest.raises((StoreError, SetupError)) as caught:
        await open_and_close(settings_of(tmp_path, url))

    assert "secret" not in caught.value.detail
