"""`/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from rag.api.auth import ServicesDep
from rag.errors import StoreUnavailable, UpstreamUnavailable
from rag.llm.breaker import State
from rag.values import Deadline
from rag.waiting import in_time

router = APIRouter(tags=["operation"])
PROBE_S = 5.0  # who probes waits about so long
_SILENT = f"did not answer within {PROBE_S:g} s"


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process serves."""
    return {"status": "live"}


@router.get("/readyz")
async def readyz(services: ServicesDep) -> dict[str, str | dict[str, State] | dict[str, str]]:
    """The database answers, the models compute, and something is left to answer with; the state of each chat target.

    `chat` has the states by name, for machines; `chat_means` says what each means for whoever is on call.
    """
    left_s = Deadline.after(PROBE_S).remaining_s
    await in_time(services.database.describe(), left_s, late=partial(StoreUnavailable, f"the database {_SILENT}"))
    embedder = next(iter(services.embedders.values()))
    silent = partial(UpstreamUnavailable, f"the embedder {_SILENT}")
    await in_time(embedder.embed_query("ready?"), left_s, late=silent)
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
