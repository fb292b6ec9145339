"""A `rag` command run for one tenant as a shell would, and what it left behind."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable

import psycopg

from rag.values import tenant_id

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]

NAME = "commanded"  # the tenant of `start` and `run`
SUMMARY = re.compile(
    r"(\d+) documents?: (\d+) ingested, (\d+) unchanged, (\d+) failed, (\d+) deleted, (\d+) renamed;"
    r" \d+ chunks in .* s\n"
)


def stored(owner: psycopg.Connection, folder: str | None = "default") -> list[str]:
    query = (
        "SELECT external_id FROM documents WHERE tenant_id = %s AND folder IS NOT DISTINCT FROM %s"
        ' ORDER BY external_id COLLATE "C", version'
    )
    return [row[0] for row in owner.execute(query, (tenant_id(NAME), folder))]


def summary(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Documents, ingested, unchanged, failed, deleted, renamed."""
    match = SUMMARY.fullmatch(done.stdout)
    assert match, done.stdout + done.stderr
    return [int(number) for number in match.groups()]


def rows(owner: psycopg.Connection) -> list[object]:
    """How many rows of every kind the tenant has, and its version."""
    tables = ("documents", "chunks", "embeddings", "jobs", "job_queue")
    queries = [f"SELECT count(*) FROM {table} WHERE tenant_id = %s" for table in tables]
    queries.append("SELECT index_version FROM tenants WHERE tenant_id = %s")
    return [row for query in queries for row in owner.execute(query, (tenant_id(NAME),))]


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Return as soon as the condition holds; it is looked at 50 times a second."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
