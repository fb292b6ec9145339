"""`GET /v1/chunks`: how a document was cut."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from rag.api.auth import Member, ServicesDep
from rag.api.limits import InTime
from rag.storable import MAX_EXTERNAL_ID, check_external_id
from rag.store.documents import StoredChunk, list_chunks

router = APIRouter(prefix="/v1/chunks", tags=["documents"], route_class=InTime)

PAGE = 100
MAX_POSITION = 2**31 - 1  # what the column holds


class ChunkResult(BaseModel):
    """A chunk: `text` is the document's text[start:end], `indexed` is what both legs read."""

    chunk_id: UUID
    position: int
    kind: str
    breadcrumb: list[str]
    start: int
    end: int
    text: str
    indexed: str


class ChunkPage(BaseModel):
    """Chunks by position; `next` is the `after` of the following page."""

    chunks: list[ChunkResult]
    next: int | None


@router.get("")
async def get_chunks(
    external_id: Annotated[str, Query(max_length=MAX_EXTERNAL_ID)],
    who: Member,
    services: ServicesDep,
    after: Annotated[int, Query(ge=-1, le=MAX_POSITION)] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> ChunkPage:
    """A page of the document's chunks, the first one at position 0."""
    async with services.database.tenant(who.tenant_id) as tx:
        found = await list_chunks(tx, check_external_id(external_id), who.groups, after=after, limit=limit)
    return ChunkPage(
        chunks=[_result(chunk) for chunk in found], next=found[-1].position if len(found) == limit else None
    )


def _result(chunk: StoredChunk) -> ChunkResult:
    return ChunkResult(**{name: getattr(chunk, name) for name in ChunkResult.model_fields})
