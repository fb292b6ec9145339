"""`POST /v1/search`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from rag.api.auth import Reader, ServicesDep, json_only
from rag.api.limits import InTime
from rag.api.schemas import SearchBody, SearchResult, search_result
from rag.telemetry import request_id

router = APIRouter(prefix="/v1", tags=["query"], route_class=InTime)


@router.post("/search", dependencies=[Depends(json_only)], response_model_exclude_none=False)
async def post_search(body: SearchBody, who: Reader, services: ServicesDep) -> SearchResult:
    """The ranked chunks for a question."""
    question = body.question(who, services.settings)
    found = await services.retriever.retrieve(who.tenant_id, question)
    services.metrics.observe_stages(found.timings_ms)
    return search_result(found, explain=body.explain, request_id=request_id.get())
