"""A bar on a terminal, for work that is counted in documents and chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Move = Callable[[int, int, int], None]


@contextmanager
def bar(title: str) -> Iterator[Move]:
    """A bar that is moved to: documents that are through, of so many, and chunks so far; it shows rate and time left.

    Nothing is shown where there is no terminal.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[chunks]} chunks, {task.fields[rate]:.0f}/s"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=None, chunks=0, rate=0.0)

        def move(documents: int, total: int, chunks: int) -> None:
            rate = chunks / max(time.monotonic() - started, 1e-9)
            progress.update(task, total=total, completed=documents, chunks=chunks, rate=rate)

        yield move
