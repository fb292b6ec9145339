"""From the Authorization header to a principal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rag.errors import Forbidden, InvalidInput, Unauthenticated, UnsupportedFormat
from rag.store.tenancy import principal_of
from rag.values import Principal
from rag.wiring import Services


# dependencies are coroutines where they need not be: what is not, FastAPI gives to a thread, which takes longer
async def services(request: Request) -> Services:
    """What the lifespan opened."""
    return cast("Services", request.state.services)


ServicesDep = Annotated[Services, Depends(services)]
BEARER = HTTPBearer(auto_error=False, description="a key of `rag key create`")
Key = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]


def allowed(*scopes: str) -> Callable[[Services, Key], Awaitable[Principal]]:
    """A dependency that gives the caller when its key has one of *scopes*."""

    async def principal(opened: ServicesDep, key: Key) -> Principal:
        if key is None:
            raise Unauthenticated
        who = await principal_of(opened.database, key.credentials)
        if not who.scopes & {*scopes, "admin"}:
            raise Forbidden(f"this key lacks the scope {' or '.join(scopes)}; see `rag key create --scopes`")
        return who

    return principal


Reader = Annotated[Principal, Depends(allowed("query"))]
Writer = Annotated[Principal, Depends(allowed("ingest"))]
Member = Annotated[Principal, Depends(allowed("query", "ingest"))]
Admin = Annotated[Principal, Depends(allowed("admin"))]


async def known_parameters(request: Request) -> None:
    """Refuse what the address asks for and the route does not take, or not twice: it would be ignored silently."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    given = Counter(name for name, _ in request.query_params.multi_items())
    if unknown := sorted(given.keys() - known):
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidInput(f"{unknown[0][:60]!r} is no parameter of this route; {takes}")
    if repeated := sorted(name for name, times in given.items() if times > 1):
        raise InvalidInput(f"{repeated[0]!r} is there {given[repeated[0]]} times; say it once")


async def json_only(request: Request) -> None:
    """Refuse bodies that do not say they are JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        said = f"this is sent as {kind[:60]}" if kind else "this says no type"
        raise UnsupportedFormat(f"send JSON with Content-Type: application/json; {said}")
