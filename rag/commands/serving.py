"""`rag serve` and `rag worker`."""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping

from ingest.pipeline import Pipeline
from ingest.sandbox import Sandbox
from ingest.worker import Worker
from rag.commands.opened import settings
from rag.inference.opening import open_embedders
from rag.protocols import Embedder
from rag.serving import serve as serve_http
from rag.serving import until_terminated
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.telemetry import Metrics
from rag.wiring import Services


def serve(arguments: argparse.Namespace) -> None:
    """Serve the HTTP API until a signal."""
    ours = settings()
    port = ours.port if arguments.port is None else arguments.port
    serve_http(ours, port=port, background=None if arguments.no_worker else _beside)


def worker(_: argparse.Namespace) -> None:
    """Run ingestion jobs until a signal."""

    async def work() -> None:
        ours = settings()
        async with open_embedders(ours) as embedders, open_store(ours) as database:
            await _work(database, embedders, Metrics())

    until_terminated(work())


async def _beside(services: Services) -> None:
    await _work(services.database, services.embedders, services.metrics)


async def _work(database: Database, embedders: Mapping[str, Embedder], metrics: Metrics) -> None:
    async with Sandbox() as sandbox:
        pipeline = Pipeline(database, embedders, sandbox.parse)
        await Worker(database, pipeline, metrics, random.Random()).run()  # noqa: S311 - jitter
