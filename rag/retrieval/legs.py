"""Both legs at once, until a deadline: what one of them has found is an answer while the other is late."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from rag.errors import DeadlineExceeded
from rag.telemetry import log
from rag.values import Deadline, LegResult
from rag.waiting import CANCELLING_S, let_go

Searching = Coroutine[Any, Any, LegResult]


async def both(dense: Searching, lexical: Searching, *, deadline: Deadline) -> tuple[LegResult, LegResult]:
    """What each leg found; of one that is late an empty, incomplete result, its statement cancelled on the server.

    Raises what a leg raises, and DeadlineExceeded when both are late: to wait on could be to wait for each other, where
    those who search hold all connections.
    """
    tasks = [asyncio.create_task(dense), asyncio.create_task(lexical)]
    try:
        await asyncio.wait(tasks, timeout=deadline.remaining_s(), return_when=asyncio.FIRST_EXCEPTION)
        late = [task for task in tasks if not task.done()]
    finally:
        await _cancel(tasks)
    in_time = [task.result() for task in tasks if task not in late]  # or what it raised
    if not in_time:
        raise DeadlineExceeded("the search took too long; try again")
    if late:
        log.warning("leg late", leg="dense" if tasks[0] in late else "lexical")
    first, second = (
        replace(in_time[0], ranked=(), complete=False) if task in late else task.result() for task in tasks
    )
    return first, second


async def _cancel(tasks: Sequence[asyncio.Task[LegResult]]) -> None:
    """Stop what is still under way; the connections it had are free again when this returns."""
    if running := let_go(tasks):
        await asyncio.wait(running, timeout=CANCELLING_S)
