"""`rag tenant delete`, with somebody at a terminal and with nobody."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

from rag.store.engine import Database
from rag.values import tenant_id
from tests.conftest import REPOSITORY, MakeTenant
from tests.integration.corpus import prepared, store

NAME = "leaving"
Delete = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
async def delete(
    database: Database, make_tenant: MakeTenant, database_url: str, process_environment: dict[str, str]
) -> Delete:
    """Runs `rag tenant delete` for a tenant with two documents; what is *typed* is typed on a terminal."""
    await store(database, await make_tenant(NAME), [prepared("a.md", "One."), prepared("b.md", "Two.")])

    def command(*arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        ours, theirs = pty.openpty()
        if typed is not None:
            os.write(ours, f"{typed}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "rag", "tenant", "delete", NAME, *arguments],
            cwd=REPOSITORY,
            env={**process_environment, "DATABASE_URL": database_url},
            stdin=subprocess.DEVNULL if typed is None else theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(ours)
        os.close(theirs)
        return done

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
