"""The ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from fastapi import Depends, FastAPI

from rag.api import admin, chunks, completions, documents, health, jobs, query, search
from rag.api.auth import known_parameters
from rag.api.limits import BodyLimit, RequestFrame
from rag.api.problems import OPENAI_ERRORS, PROBLEMS, add_handlers
from rag.settings import Settings
from rag.telemetry import Metrics
from rag.wiring import Services

Background = Callable[[Services], Awaitable[None]]


def create_app(
    settings: Settings,
    open_services: Callable[[Settings, Metrics], AbstractAsyncContextManager[Services]],
    *,
    metrics: Metrics | None = None,
    background: Background | None = None,
) -> FastAPI:
    """The service over what *open_services* opens; *background* runs beside it until it stops."""
    counted = metrics or Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Services]]:
        async with open_services(settings, counted) as services:
            task = asyncio.ensure_future(background(services)) if background else None
            try:
                yield {"services": services}
            finally:
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    app = FastAPI(title="RAG service", version="1", lifespan=lifespan)
    add_handlers(app)
    for room in (search, query, documents, chunks, jobs, admin):
        app.include_router(room.router, dependencies=[Depends(known_parameters)], responses=PROBLEMS)
    app.include_router(completions.router, responses=OPENAI_ERRORS)  # whose clients may send parameters of their own
    app.include_router(health.router)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(RequestFrame, metrics=counted)
    return app
