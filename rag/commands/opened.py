"""What commands begin with: the settings, and the store or the whole service opened from them."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable

from rag.settings import Settings, load_settings
from rag.store.engine import Database
from rag.store.opening import open_store
from rag.telemetry import configure_logging

_STEERING = re.compile(r"[^\t\n\x20-\x7e\xa0-\U0010ffff]")


def settings() -> Settings:
    """The settings of this process; the log goes to standard error, since what a command prints may be JSON."""
    loaded = load_settings()
    configure_logging(loaded.log_level)
    return loaded


def with_store(run: Callable[[Database], Awaitable[None]]) -> None:
    """Do *run* with the store, to its end."""

    async def opened() -> None:
        async with open_store(settings()) as database:
            await run(database)

    asyncio.run(opened())


def names(text: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def show(text: str) -> None:
    """Print lines; what would steer the terminal, as a document may contain, is named instead, as JSON does it."""
    sys.stdout.write(_STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")
