"""A limit for each of many waits by one timer: `asyncio.timeout` makes one a wait, and a stream waits for each word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Watch:
    """Ends waits that take too long. The timer is set anew only when it goes off, or when a limit comes earlier."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._until = 0.0
        self._task: asyncio.Task[object] | None = None  # that waits now
        self._fired = False
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, work: Awaitable[T], until: float) -> T:
        """What *work* gives, if it does before the moment *until* of the monotonic clock.

        Raises TimeoutError.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - only a task waits
        cancelling = task.cancelling()
        self._until, self._task, self._fired = until, task, False
        if self._timer is None or self._timer.when() > until:
            self._set_timer()
        try:
            return await work
        except asyncio.CancelledError:
            # whoever else cancelled the task meanwhile must not be forgotten
            if self._fired and task.uncancel() <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._task = None

    def stop(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_at(self._until, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._until > time.monotonic():
            self._set_timer()
        else:
            self._fired = True
            self._task.cancel()
