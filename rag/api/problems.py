"""Every error as `application/problem+json` with a stable code; nothing of the request is echoed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from rag import errors
from rag.api import faults
from rag.api.degraded import tried
from rag.telemetry import log, request_id

STATUS: Mapping[type[errors.RagError], int] = {
    errors.RagError: 500,
    errors.CallerError: 400,
    errors.InvalidInput: 422,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.PriceUnknown: 409,
    errors.NotAllowed: 409,
    errors.TooLarge: 413,
    errors.UnsupportedFormat: 415,
    errors.StoreError: 500,
    errors.StoreUnavailable: 503,
    errors.IndexMismatch: 503,
    errors.IndexFull: 503,
    errors.ModelMissing: 503,
    errors.UpstreamError: 502,
    errors.UpstreamUnavailable: 503,
    errors.NoNetwork: 503,
    errors.ProviderQuota: 503,
    errors.ProviderConfig: 502,
    errors.EmptyCompletion: 502,
    errors.UpstreamIncomplete: 502,
    errors.UpstreamTimeout: 504,
    errors.UpstreamRateLimited: 429,
    errors.UpstreamRejected: 400,
    errors.ContextLength: 413,
    errors.ContentFiltered: 422,
    errors.Busy: 429,
    errors.BudgetExceeded: 429,
    errors.BalanceEmpty: 402,
    errors.BudgetTooSmall: 402,
    errors.SetupError: 500,
    errors.DeadlineExceeded: 504,
}
METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
RETRY_AFTER_S = "2"  # a database that restarts is back by then
_HTTP = {  # what the framework says itself, and how
    400: ("bad_request", faults.UNREADABLE),
    404: ("not_found", "there is no such route; GET /openapi.json lists them"),
    405: ("method_not_allowed", "this route takes {allowed}"),
}


OPENAI_PATHS = ("/v1/chat/completions", "/v1/models")
_OF_THE_CALLER = range(400, 500)
_OPENAI_TYPES = {
    "unauthenticated": "authentication_error",
    "forbidden": "permission_error",
    "busy": "rate_limit_error",
    "upstream_rate_limited": "rate_limit_error",
    "budget_exceeded": "insufficient_quota",
    "balance_empty": "insufficient_quota",
    "budget_too_small": "insufficient_quota",
}
_ABOUT = frozenset({"request_id", "tried", "retry_after_s", "resets_at"})
_NAMED = re.compile(r"([a-z_]+)(?:[.\[][^\s:]+)?: ")


class Problem(BaseModel):
    """An error: `code` outlasts the words of `detail`. There may be `tried`, `retry_after_s` and `resets_at` too."""

    type: Literal["about:blank"]
    status: int
    code: str
    detail: str
    request_id: str


# for /openapi.json: what a route answers with besides its result
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": Problem.__doc__,
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
}
OPENAI_ERRORS: dict[int | str, dict[str, Any]] = {"default": {"description": "An error as OpenAI words it."}}


def status_of(error: errors.RagError) -> int:
    """The HTTP status of an error: its class's, or that of the nearest class above."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem_body(status: int, *, code: str, detail: str) -> dict[str, object]:
    """The body of a problem, for a response or a stream's `error` event."""
    return {"type": "about:blank", "status": status, "code": code, "detail": detail, "request_id": request_id.get()}


def problem_of(error: errors.RagError) -> dict[str, object]:
    """The body for one of our errors; inner faults say nothing of themselves to the caller."""
    status = status_of(error)
    hidden = status == 500  # noqa: PLR2004 - the one status for "our fault"
    body = problem_body(status, code=error.code, detail="the service failed; see its log" if hidden else error.detail)
    if error.tried and not hidden:
        body["tried"] = [line.model_dump() for line in tried(error.tried)]
    if error.retry_after_s is not None:
        body["retry_after_s"] = math.ceil(error.retry_after_s)
    if error.resets_at is not None:
        body["resets_at"] = f"{error.resets_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return body


def openai_error(problem: Mapping[str, object]) -> dict[str, object]:
    """A problem in the shape that OpenAI's clients read. Our sentences begin with the field that is wrong, if any."""
    status, detail = problem["status"], str(problem["detail"])
    named = _NAMED.match(detail) if status in _OF_THE_CALLER else None
    about = {name: value for name, value in problem.items() if name in _ABOUT}
    kind = _OPENAI_TYPES.get(str(problem["code"])) or ("server_error" if status not in _OF_THE_CALLER else None)
    error = {"message": detail, "type": kind or "invalid_request_error", "code": problem["code"]}
    return {"error": {**error, "param": named[1] if named else None, **about}}


def problem_response(path: str, body: Mapping[str, object], status: int, headers: Mapping[str, str]) -> JSONResponse:
    """The problem as callers of *path* read it."""
    if path.startswith(OPENAI_PATHS):
        return JSONResponse(openai_error(body), status, headers)
    return JSONResponse(body, status, headers, "application/problem+json")


def add_handlers(app: FastAPI) -> None:
    """Turn every exception of the routes into a problem."""

    @app.exception_handler(errors.RagError)
    async def rag_error(request: Request, exc: errors.RagError) -> JSONResponse:
        status = status_of(exc)
        if status >= 500:  # noqa: PLR2004 - server faults
            log.error("request failed", code=exc.code, detail=exc.detail, cause=repr(exc.__cause__))
        return _response(request, problem_of(exc), status)

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, exc: RequestValidationError) -> JSONResponse:
        detail = faults.told(exc.errors(), exc.body)
        return _response(request, problem_body(422, code="invalid_request", detail=detail), 422)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, exc: HTTPException) -> JSONResponse:
        code, said = _HTTP.get(exc.status_code, ("bad_request", "{detail}"))
        headers = dict(exc.headers or {})
        if "Allow" in headers:
            headers["Allow"] = _methods_of(request)
        detail = said.format(detail=exc.detail, allowed=headers.get("Allow"))
        response = _response(request, problem_body(exc.status_code, code=code, detail=detail), exc.status_code)
        response.headers.update(headers)
        return response

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, exc: Exception) -> JSONResponse:
        log.error("unforeseen", exc_info=exc)
        return _response(request, problem_body(500, code="internal", detail="the service failed; see its log"), 500)


def _methods_of(request: Request) -> str:
    """All that can be done at the path of a request; the framework names the methods of its first route alone."""
    asked = ((method, {**request.scope, "method": method}) for method in METHODS)
    taken = (method for method, scope in asked if any(r.matches(scope)[0] is Match.FULL for r in request.app.routes))
    return ", ".join(taken)


def _response(request: Request, body: dict[str, object], status: int) -> JSONResponse:
    headers = {"X-Request-ID": request_id.get()}
    if status == 401:  # noqa: PLR2004 - the status that asks for it
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after_s" in body:
        headers["Retry-After"] = str(body["retry_after_s"])
    elif status == 503:  # noqa: PLR2004 - the status that passes
        headers["Retry-After"] = RETRY_AFTER_S
    return problem_response(request.url.path, body, status, headers)
