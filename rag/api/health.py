"""`/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from rag.api.auth import ServicesDep

router = APIRouter(tags=["operation"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process serves."""
    return {"status": "live"}


@router.get("/readyz")
async def readyz(services: ServicesDep) -> dict[str, str]:
    """The database answers and the models compute."""
    await services.database.describe()
    await next(iter(services.embedders.values())).embed_query("ready?")
    return {"status": "ready", "database": "ok", "models": "ok"}


@router.get("/metrics")
async def metrics(services: ServicesDep) -> Response:
    """Counters and histograms for Prometheus."""
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)
