"""`/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from rag.api.auth import ServicesDep
from rag.errors import UpstreamUnavailable
from rag.llm.breaker import State

router = APIRouter(tags=["operation"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process serves."""
    return {"status": "live"}


@router.get("/readyz")
async def readyz(services: ServicesDep) -> dict[str, str | dict[str, State] | dict[str, str]]:
    """The database answers, the models compute, and something is left to answer with; the state of each chat target.

    `chat` has the states by name, for machines; `chat_means` says what each means for whoever is on call.
    """
    await services.database.describe()
    await next(iter(services.embedders.values())).embed_query("ready?")
    states = services.lanes.states()
    means = services.lanes.means()
    if not services.lanes.can_answer():
        away = ", ".join(f"{target} is {state} ({means[target]})" for target, state in states.items())
        raise UpstreamUnavailable(f"no chat model is left to answer: {away}; searches work")
    return {"status": "ready", "database": "ok", "models": "ok", "chat": states, "chat_means": means}


@router.get("/metrics")
async def metrics(services: ServicesDep) -> Response:
    """Counters and histograms for Prometheus."""
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)
