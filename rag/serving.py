"""`rag serve` and `rag worker`: everything is opened first, so that what is wrong is said in one line."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from rag.answering.cautions import cautions
from rag.app import Background, create_app
from rag.errors import SetupError
from rag.settings import Settings
from rag.telemetry import Metrics, configure_logging, log
from rag.wiring import Services, open_services

BACKLOG = 2048  # uvicorn's own


def serve(settings: Settings, *, port: int, background: Background | None) -> None:
    """Serve the HTTP API on *port* until a signal, with *background* beside it.

    Raises SetupError for an address that cannot be listened on.
    """
    configure_logging(settings.log_level)
    # as Ctrl-C does, so that what is open is closed: uvicorn sends a signal that it has minded once more
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    asyncio.run(_serve(settings, port, background))


def until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* until it ends or the process is asked to: it can then put back what it holds."""
    asyncio.run(_until_terminated(work))


async def _serve(settings: Settings, port: int, background: Background | None) -> None:
    metrics = Metrics()
    with _listen(settings.host, port) as listening:
        async with open_services(settings, metrics) as services:

            @asynccontextmanager
            async def opened(_: Settings, __: Metrics) -> AsyncIterator[Services]:
                yield services

            for caution in cautions(settings):
                log.warning("a setting has no effect", detail=caution)
            app = create_app(settings, opened, metrics=metrics, background=background)
            host, taken = listening.getsockname()[:2]
            sys.stderr.write(f"serving http://{host}:{taken}\n")
            gc.collect()
            gc.freeze()  # code and models stay: looking through them again and again is 4 % of a search's time
            config = uvicorn.Config(app, log_level=settings.log_level, access_log=False)
            await uvicorn.Server(config).serve(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it, a response takes 40 ms longer
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as exc:
        listening.close()
        raise SetupError(f"cannot listen on {host}:{port} (RAG_HOST, RAG_PORT or --port): {exc}") from exc
    return listening


async def _until_terminated(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
