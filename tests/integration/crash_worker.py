"""A worker process with a fake embedder that takes its time: a kill hits any stage.

Run with the database's URL, the seconds of a lease, and those of each call to the embedder.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence

from ingest.pipeline import Pipeline
from ingest.sandbox import Sandbox
from ingest.worker import Worker
from rag.errors import StoreUnavailable
from rag.protocols import Vectors
from rag.serving import until_terminated
from rag.store.engine import open_database
from rag.telemetry import Metrics, configure_logging
from tests.fakes import FakeEmbedder, embedders

READY = "ready\n"
DEADLY = "nightshade"


class MortalEmbedder(FakeEmbedder):
    """Takes its process down with it when a text has DEADLY in it."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any(DEADLY in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().embed_documents(texts)


async def work(url: str, lease_s: float, delay_s: float) -> None:
    while True:
        try:
            async with open_database(url, size=4, timeout_s=5.0) as database, Sandbox() as sandbox:
                sys.stdout.write(READY)
                sys.stdout.flush()
                pipeline = Pipeline(database, embedders(MortalEmbedder(delay_s=delay_s)), sandbox.parse)
                await Worker(database, pipeline, Metrics(), random.Random(), lease_s=lease_s).run()
        except StoreUnavailable:  # it was started while the database was down
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    configure_logging("info")
    until_terminated(work(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
