"""Who may work at the same time in one process: many side by side, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Lets work run side by side, or alone: then nothing else is lost with it when it ends the process."""

    def __init__(self) -> None:
        """Let anybody begin."""
        self._door = asyncio.Lock()  # held by who is alone, or waits to be
        self._beside = 0
        self._nobody = asyncio.Event()
        self._nobody.set()

    async def open(self) -> None:
        """Return when nobody is alone or waits to be."""
        async with self._door:
            pass

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """The block runs beside others that do not mind."""
        async with self._door:
            self._beside += 1
            self._nobody.clear()
        try:
            yield
        finally:
            self._beside -= 1
            if not self._beside:
                self._nobody.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """The block runs when all others have ended, and they wait until it has."""
        async with self._door:
            await self._nobody.wait()
            yield
