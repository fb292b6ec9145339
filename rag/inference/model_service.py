"""A model served over HTTP: what is worth repeating is repeated, and every fault becomes one of our errors."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2
from httpx2 import codes
from pydantic import TypeAdapter, ValidationError

from rag.errors import InvalidInput, RagError, SetupError, UpstreamError
from rag.inference.address import Address
from rag.telemetry import log

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 120.0  # a batch takes half a minute on a CPU that has another in hand
CONNECTIONS = 32  # of which documents take a few; the rest is for questions
ATTEMPTS = 4
FIRST_PAUSE_S = 0.5  # at most, and twice as long each time
LONGEST_PAUSE_S = 20.0  # who is asked to wait longer fails, and the queue comes back to it
MESSAGE_CHARS = 200  # of what the service says

REFUSED_INPUT = {codes.BAD_REQUEST, codes.CONTENT_TOO_LARGE, codes.UNPROCESSABLE_CONTENT}
REFUSED_KEY = {codes.UNAUTHORIZED, codes.FORBIDDEN}
PASSING = {codes.REQUEST_TIMEOUT, codes.TOO_MANY_REQUESTS}  # and all from 500 up

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chance:
    """What a test may want to decide itself: the jitter, and how pauses pass."""

    uniform: Callable[[float, float], float] = random.uniform
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class ModelService:
    """One model's service. Its key is in no message, log line or repr."""

    def __init__(self, address: Address, http: httpx2.AsyncClient, chance: Chance) -> None:
        """Ask at *address* through *http*."""
        self.address = address
        self._http = http
        self._chance = chance

    async def post(self, route: str, body: Mapping[str, object], reply: TypeAdapter[T]) -> T:
        """The reply to *body*.

        Raises InvalidInput when the service refuses what it was sent, SetupError when it does not know us or the model,
        UpstreamError when it is away, overloaded, or makes no sense.
        """
        response = await self._patiently(route, body)
        try:
            return reply.validate_json(response.content)
        except ValidationError as exc:
            fault = exc.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, fault["loc"]))
            # without the cause: it repeats what it was given
            raise self.nonsense(f"{place}: {fault['msg']}") from None

    def nonsense(self, what: str) -> UpstreamError:
        """The error for a reply that cannot be used."""
        return UpstreamError(f"{self._where} gave an answer that cannot be used: {what}")

    async def _patiently(self, route: str, body: Mapping[str, object]) -> httpx2.Response:
        attempt = 1
        while True:
            try:
                return await self._once(route, body)
            except _Passing as exc:
                jitter_s = self._chance.uniform(0, FIRST_PAUSE_S * 2 ** (attempt - 1))
                pause_s = exc.asked_s + jitter_s
                if attempt == ATTEMPTS or pause_s > LONGEST_PAUSE_S:
                    raise UpstreamError(str(exc)) from exc
                log.warning("model service asked again", setting=self.address.setting, attempt=attempt, why=str(exc))
            await self._chance.sleep(pause_s)
            attempt += 1

    async def _once(self, route: str, body: Mapping[str, object]) -> httpx2.Response:
        content = json.dumps(body, ensure_ascii=False).encode(errors="replace")  # half a character is sent as "?"
        headers = {"Content-Type": "application/json"}
        try:
            response = await self._http.post(self.address.url + route, content=content, headers=headers)
        except httpx2.ReadTimeout as exc:  # it may still be at work on this: the same again would only add to that
            raise UpstreamError(f"{self._where} did not answer in {READ_TIMEOUT_S:.0f} seconds") from exc
        except httpx2.TransportError as exc:
            raise _Passing(f"{self._where} cannot be reached ({type(exc).__name__})") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise UpstreamError(f"{self._where} cannot be asked ({type(exc).__name__})") from exc
        if response.is_success:
            return response
        raise self._refusal(response)

    def _refusal(self, response: httpx2.Response) -> RagError | _Passing:
        status, setting = response.status_code, self.address.setting
        if status in REFUSED_KEY:  # without its words: some repeat the key
            return SetupError(f"{self._where} refuses the key ({status}); check {self.address.key_setting}")
        said = f"{status}: {self._words(response)}"
        if status in REFUSED_INPUT:
            return InvalidInput(f"{self._where} refuses the input ({said})")
        if status == codes.NOT_FOUND:
            return SetupError(f"{self._where} has no such route or model ({said}); check {setting}")
        if status in PASSING or status >= codes.INTERNAL_SERVER_ERROR:
            return _Passing(f"{self._where} answers with {status}", asked_s=_asked_s(response))
        return UpstreamError(f"{self._where} answers with {said}")

    def _words(self, response: httpx2.Response) -> str:
        """What the service says, in one short line."""
        text = " ".join(response.text.split())
        if key := self.address.key.get_secret_value():
            text = text.replace(key, "***")
        return text[:MESSAGE_CHARS] or "no reason given"

    @property
    def _where(self) -> str:
        """Without the host, since callers may read it."""
        return f"the service of {self.address.setting} for {self.address.model}"


@asynccontextmanager
async def open_model_service(
    address: Address, *, transport: httpx2.AsyncBaseTransport | None = None, chance: Chance | None = None
) -> AsyncIterator[ModelService]:
    """The service at *address*, until the block ends."""
    key = address.key.get_secret_value()
    async with httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx2.Limits(max_connections=CONNECTIONS),
        transport=transport,
    ) as http:
        yield ModelService(address, http, chance or Chance())


class _Passing(Exception):
    """The service may well do it a moment later; `asked_s` is how long it asks to be left alone."""

    def __init__(self, detail: str, *, asked_s: float = 0.0) -> None:
        super().__init__(detail)
        self.asked_s = asked_s


def _asked_s(response: httpx2.Response) -> float:
    """Seconds of the header Retry-After, which is a number or a date; 0 without one."""
    text = response.headers.get("Retry-After", "")
    try:
        if text.isascii() and text.isdigit():
            return float(text)
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
