"""Embedders that do what a test needs in the middle of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from rag.protocols import Vectors
from tests.fakes import FakeEmbedder


class PickyEmbedder(FakeEmbedder):
    """Raises *error* for every batch with a text that has *word* in it; without an error, its vector is *number*s."""

    def __init__(self, word: str, error: Exception | None = None, *, number: float = 0.0) -> None:
        super().__init__()
        self.refused: list[int] = []  # how many texts came together, each time it raised
        self._word = word
        self._raises = error
        self._number = number

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        at_fault = [n for n, text in enumerate(texts) if self._word in text]
        if at_fault and self._raises is not None:
            self.refused.append(len(texts))
            raise self._raises
        vectors = np.array(await super().embed_documents(texts))
        vectors[at_fault] = self._number
        return vectors


class GatedEmbedder(FakeEmbedder):
    """Waits before each call that *word* is in until it is let through; `reached` says that it waits."""

    def __init__(self, word: str = "") -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.gate = asyncio.Semaphore(0)
        self._word = word

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any(self._word in text for text in texts):
            self.reached.set()
            await self.gate.acquire()
        return await super().embed_documents(texts)


async def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Return once *condition* holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)
