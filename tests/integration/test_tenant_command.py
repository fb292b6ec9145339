"""`rag tenant list`, and `rag tenant delete` with somebody at a terminal and with nobody."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rag.errors import SetupError
from rag.store.engine import Database
from rag.store.roll import roll
from rag.values import tenant_id
from tests.conftest import REPOSITORY, MakeTenant
from tests.integration.corpus import prepared, store

NAME = "leaving"
Done = subprocess.CompletedProcess[str]
Delete = Callable[..., Done]


def rag(environment: dict[str, str], *arguments: str, stdin: int = subprocess.DEVNULL) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "rag", "tenant", *arguments],
        cwd=REPOSITORY,
        env=environment,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
async def environment(
    database: Database, make_tenant: MakeTenant, database_url: str, process_environment: dict[str, str]
) -> dict[str, str]:
    """That of a `rag` process, for a database with a tenant of two documents."""
    await store(database, await make_tenant(NAME), [prepared("a.md", "One."), prepared("b.md", "Two.")])
    return {**process_environment, "DATABASE_URL": database_url}


@pytest.fixture
def delete(environment: dict[str, str]) -> Delete:
    """Runs `rag tenant delete`; what is *typed* is typed on a terminal."""

    def command(*arguments: str, typed: str | None = None) -> Done:
        if typed is None:
            return rag(environment, "delete", NAME, *arguments)
        ours, theirs = pty.openpty()
        os.write(ours, f"{typed}\n".encode())
        try:
            return rag(environment, "delete", NAME, *arguments, stdin=theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    return command


def is_there(owner: psycopg.Connection) -> bool:
    return bool(owner.execute("SELECT 1 FROM tenants WHERE tenant_id = %s", (tenant_id(NAME),)).fetchall())


def test_on_a_terminal_the_name_must_be_typed(delete: Delete, owner: psycopg.Connection) -> None:
    refused = delete(typed="yes")
    kept = is_there(owner)
    done = delete(typed=NAME)

    assert (refused.returncode, refused.stdout, kept) == (1, "", True)
    assert refused.stderr == (
        f"tenant {NAME} and everything it has will be deleted. Type its name to go on: "
        "rag: that is not its name; nothing was deleted\n"
    )
    assert (done.returncode, done.stdout) == (0, f"no tenant {NAME} any more; 2 documents went with it\n")
    assert not is_there(owner)


@pytest.mark.parametrize(("arguments", "typed"), [([], None), (["--yes"], "no")])
def test_without_a_terminal_or_with_yes_nobody_is_asked(
    delete: Delete, owner: psycopg.Connection, arguments: list[str], typed: str | None
) -> None:
    done = delete(*arguments, typed=typed)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"no tenant {NAME} any more; 2 documents went with it\n"
    assert not is_there(owner)


async def test_every_tenant_is_listed_with_its_documents(
    environment: dict[str, str], make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    owner.execute("DELETE FROM tenants WHERE name NOT IN (%s, 'start-up probe')", (NAME,))
    await make_tenant("acme")

    listed = rag(environment, "list")

    assert listed.stdout.split() == ["tenant", "documents", "acme", "0", NAME, "2"]
    assert rag(environment, "delete", NAME).returncode == 0


def test_a_role_that_row_level_security_holds_for_is_told_so(database_url: str) -> None:
    with pytest.raises(SetupError, match="hides all tenants from this role"):
        roll(make_conninfo(database_url, options="-c role=rag_app"))
