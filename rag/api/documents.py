"""`/v1/documents`: put, list, read, delete."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from rag.api.auth import Member, ServicesDep, Writer
from rag.api.faults import told
from rag.api.limits import InTime
from rag.errors import InvalidInput, NotFound, UnsupportedFormat
from rag.formats import CONTENT_TYPES
from rag.retrieval.filters import parse_moment
from rag.storable import MAX_EXTERNAL_ID, check_external_id, check_facets, check_validity
from rag.store.documents import StoredDocument, delete_document, get_document, list_documents
from rag.store.engine import TenantTx
from rag.store.jobs import Upload, enqueue, newest_job
from rag.values import Scalar

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=InTime)

PAGE = 100

Text = Annotated[str, Field(max_length=MAX_EXTERNAL_ID)]
ShortTexts = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=200)]


class DocumentBody(BaseModel):
    """A document in JSON; what it states comes before what the document's own front matter says."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str | None = None
    content_base64: str | None = None
    content_type: str = "text/markdown"
    title: Text | None = None
    doc_type: Text | None = None
    source: Text | None = None
    lang: Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")] | None = None
    tags: ShortTexts | None = None
    metadata: Annotated[dict[Annotated[str, Field(max_length=200)], Scalar], Field(max_length=200)] | None = None
    acl: ShortTexts | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    keep_history: bool = False


class Accepted(BaseModel):
    """Where to watch the upload."""

    job_id: UUID
    document_id: UUID


class Quarantined(BaseModel):
    """A chunk without a vector, which BM25 alone finds, and why."""

    start: int
    end: int
    reason: str


class DocumentResult(BaseModel):
    """A document; `text` only when one is asked for by its id. Spans of chunks and citations count in it."""

    document_id: UUID
    external_id: str
    status: Literal["ready"] = "ready"
    version: int
    superseded: bool
    title: str
    doc_type: str | None
    source: str | None
    lang: str
    tags: list[str]
    metadata: dict[str, Scalar]
    acl: list[str]
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime
    updated_at: datetime
    folder: str | None
    chunks: int
    quarantined: list[Quarantined]
    text: str | None = None


class PendingDocument(BaseModel):
    """A document whose first upload has not been stored: it waits, is under way, or failed."""

    document_id: UUID
    external_id: str
    status: Literal["queued", "running", "failed"]
    job_id: UUID
    detail: str | None


class DocumentPage(BaseModel):
    """Documents by external id; `next` is the `after` of the following page."""

    documents: list[DocumentResult]
    next: str | None


def _upload_bodies() -> dict[str, object]:
    """What OpenAPI says of an upload's body, which FastAPI does not read: it may be JSON or any file."""
    file = {"schema": {"type": "string", "format": "binary"}}
    bodies = {**dict.fromkeys(CONTENT_TYPES, file), "application/json": {"schema": DocumentBody.model_json_schema()}}
    return {"requestBody": {"required": True, "content": bodies}}


@router.put("/{external_id:path}", status_code=202, openapi_extra=_upload_bodies())
async def put_document(
    external_id: str,
    request: Request,
    who: Writer,
    services: ServicesDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Accepted:
    """Take a document's content; a worker ingests it. The old version is found until the new one is whole."""
    upload = _upload(check_external_id(external_id), request.headers.get("content-type", ""), await request.body())
    async with services.database.tenant(who.tenant_id) as tx:
        job, document = await enqueue(tx, upload, idempotency_key=idempotency_key)
    return Accepted(job_id=job, document_id=document)


@router.get("")
async def get_documents(
    who: Member,
    services: ServicesDep,
    after: Annotated[str, Query(max_length=MAX_EXTERNAL_ID)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    prefix: Annotated[str, Query(max_length=MAX_EXTERNAL_ID)] = "",
    folder: Annotated[str | None, Query(max_length=MAX_EXTERNAL_ID)] = None,
) -> DocumentPage:
    """A page of the tenant's documents that the caller may see."""
    check_facets({"prefix": prefix, "folder": folder})
    after = check_external_id(after) if after else ""
    async with services.database.tenant(who.tenant_id) as tx:
        found = await list_documents(tx, who.groups, after=after, limit=limit, prefix=prefix, folder=folder)
    listed = [document_result(document) for document in found]
    return DocumentPage(documents=listed, next=found[-1].external_id if len(found) == limit else None)


@router.get("/{external_id:path}")
async def get_one(
    external_id: str, who: Member, services: ServicesDep, version: Annotated[int | None, Query(ge=1)] = None
) -> DocumentResult | PendingDocument:
    """A document with the text that spans count in; until its first upload is stored, how that goes."""
    async with services.database.tenant(who.tenant_id) as tx:
        try:
            return document_result(await get_document(tx, check_external_id(external_id), who.groups, version))
        except NotFound:
            pending = await pending_document(tx, external_id) if version is None and "ingest" in who.scopes else None
            if pending is None:
                raise
            return pending


@router.delete("/{external_id:path}", status_code=204)
async def delete_one(external_id: str, who: Writer, services: ServicesDep) -> Response:
    """Delete a document: gone from both legs when this returns."""
    async with services.database.tenant(who.tenant_id) as tx:
        await delete_document(tx, check_external_id(external_id))
    return Response(status_code=204)


async def pending_document(tx: TenantTx, external_id: str) -> PendingDocument | None:
    """How the latest upload goes of a document that is not stored; None where there is none."""
    job = await newest_job(tx, external_id)
    if job is None or job.state not in {"queued", "running", "failed"}:
        return None
    return PendingDocument(
        document_id=job.document_id,
        external_id=external_id,
        status=job.state,  # type: ignore[arg-type]  # one of the three
        job_id=job.job_id,
        detail=job.error_detail,
    )


def document_result(document: StoredDocument) -> DocumentResult:
    """The body of a document."""
    return DocumentResult(**{n: getattr(document, n) for n in DocumentResult.model_fields if n != "status"})


def _upload(external_id: str, content_type: str, body: bytes) -> Upload:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return _from_json(external_id, body)
    return Upload(external_id, _readable(kind), {}, _content(body))


def _from_json(external_id: str, body: bytes) -> Upload:
    try:
        document = DocumentBody.model_validate_json(body)
    except ValidationError as exc:
        errors = [{**error, "loc": ("body", *error["loc"])} for error in exc.errors()]
        raise InvalidInput(told(errors, _parsed(body))) from exc
    content = {"text", "content_base64", "content_type", "keep_history"}
    given = document.model_dump(exclude=content, exclude_none=True)
    moments = {name: parse_moment(given[name], name) for name in ("valid_from", "valid_to") if name in given}
    check_validity(moments.get("valid_from"), moments.get("valid_to"))
    given |= {name: moment.isoformat() for name, moment in moments.items()}
    check_facets(given)
    kind, payload = _readable(document.content_type), _content(_bytes(document))
    return Upload(external_id, kind, given, payload, keep_history=document.keep_history)


def _parsed(body: bytes) -> object:
    """What JSON there is, for the names in it."""
    try:
        return from_json(body)
    except ValueError:
        return None


def _bytes(document: DocumentBody) -> bytes:
    if (document.text is None) == (document.content_base64 is None):
        raise InvalidInput("give the content once: as `text`, or as `content_base64`")
    if document.text is not None:
        return document.text.encode(errors="surrogatepass")
    try:
        return base64.b64decode(document.content_base64 or "", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidInput("content_base64: not base64") from exc


def _content(body: bytes) -> bytes:
    if not body.strip():
        raise InvalidInput("the document is empty")
    return body


def _readable(kind: str) -> str:
    if kind not in CONTENT_TYPES:
        said = f"content type {kind[:60]} is not read" if kind else "there is no content type"
        raise UnsupportedFormat(f"{said}; what is: {', '.join(CONTENT_TYPES)}")
    return kind
