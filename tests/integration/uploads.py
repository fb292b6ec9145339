"""Uploads and their jobs, as the tests of the queue and of its workers use them."""

from __future__ import annotations

import random

import psycopg

from ingest.pipeline import Pipeline
from ingest.worker import Worker
from rag.errors import NotFound
from rag.protocols import Embedder
from rag.store.documents import StoredDocument, get_document
from rag.store.engine import Database
from rag.store.jobs import Job, Upload, cancel_job, enqueue, get_job
from rag.telemetry import Metrics
from rag.values import JobId, TenantId
from tests.fakes import embedders, parse_directly

FIRST = b"# Refunds\n\nA refund takes five days."
SECOND = b"# Refunds\n\nA refund takes nine days."


def worker_of(database: Database, embedder: Embedder | None = None) -> Worker:
    return Worker(database, Pipeline(database, embedders(embedder), parse_directly), Metrics(), random.Random(0))


async def upload(
    database: Database, tenant: TenantId, data: bytes = FIRST, name: str = "handbook", kind: str = "text/markdown"
) -> JobId:
    async with database.tenant(tenant) as tx:
        return (await enqueue(tx, Upload(name, kind, {"tags": ["eu"], "title": "Handbook"}, data)))[0]


async def job_of(database: Database, tenant: TenantId, job: JobId) -> Job:
    async with database.tenant(tenant) as tx:
        return await get_job(tx, job)


async def cancel(database: Database, tenant: TenantId, job: JobId) -> Job:
    async with database.tenant(tenant) as tx:
        return await cancel_job(tx, job)


async def document(database: Database, tenant: TenantId, name: str = "handbook") -> StoredDocument | None:
    async with database.tenant(tenant) as tx:
        try:
            return await get_document(tx, name, frozenset())
        except NotFound:
            return None


def make_due(owner: psycopg.Connection) -> None:
    owner.execute("UPDATE job_queue SET run_at = now() - interval '1 second'")


def end_leases(owner: psycopg.Connection) -> None:
    owner.execute("UPDATE job_queue SET leased_until = now() - interval '1 second'")


def queued(owner: psycopg.Connection) -> int:
    return next(int(row[0]) for row in owner.execute("SELECT count(*) FROM job_queue"))
