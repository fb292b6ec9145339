"""The judged service over HTTP: one that runs somewhere, or one started here for the run."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError

from eval.errors import CannotRun

RAG = (sys.executable, "-m", "rag")
RERANK_DEADLINE_S = 60  # quality is judged on whole rankings, however slow the machine
REQUEST_TIMEOUT_S = 180
START_TIMEOUT_S = 180
ATTEMPTS = 6  # a service may ask to slow down this often for one request
LONGEST_PAUSE_S = 30.0

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asker:
    """Who a question is asked as; every asker has a key."""

    tenant: str
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"tenant {self.tenant}" + (f" with groups {', '.join(self.groups)}" if self.groups else "")


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a throwaway tenant holds: a folder of documents, or the records of a .jsonl file."""

    tenant: str
    path: Path


class Place(BaseModel):
    """Where one stage put a chunk."""

    rank: int


class Places(BaseModel):
    """Where each stage put a chunk; None where it did not."""

    dense: Place | None = None
    lexical: Place | None = None
    fused: Place | None = None


class OtherPlace(BaseModel):
    """Another document that says the same."""

    external_id: str


class Hit(BaseModel):
    """A ranked chunk; `also_in` names the other places of the same text."""

    chunk_id: str
    external_id: str
    also_in: tuple[OtherPlace, ...] = ()
    breadcrumb: tuple[str, ...] | str = ()
    text: str
    ranks: Places | None = None

    @property
    def documents(self) -> tuple[str, ...]:
        """Every document that the chunk stands in."""
        return (self.external_id, *(place.external_id for place in self.also_in))

    @property
    def label(self) -> str:
        """The chunk's document and place in it, for people."""
        crumbs = [self.breadcrumb] if isinstance(self.breadcrumb, str) else self.breadcrumb
        return " > ".join([self.external_id, *crumbs])

    def rank_in(self, stage: Literal["dense", "lexical", "fused"]) -> int | None:
        """The chunk's rank in *stage*, None where it has none."""
        place: Place | None = getattr(self.ranks, stage, None)
        return place.rank if place else None


class _Reply(BaseModel):
    elapsed_ms: float


class SearchReply(_Reply):
    """The answer of POST /v1/search."""

    hits: tuple[Hit, ...]
    complete: bool
    rerank: str
    rerank_reason: str | None = None  # older services say none

    @property
    def reranking(self) -> str:
        """How far the hits were reranked, and why no further."""
        return f"{self.rerank}: {self.rerank_reason}" if self.rerank_reason else self.rerank


class Citation(BaseModel):
    """Words of a chunk that an answer rests on."""

    chunk_id: str
    external_id: str
    start: int
    end: int
    quote: str


class QueryReply(_Reply):
    """The answer of POST /v1/query."""

    status: Literal["answered", "no_evidence", "degraded"]
    citations: tuple[Citation, ...]
    provider: str | None = None
    model: str | None = None


ReplyT = TypeVar("ReplyT", bound=_Reply)


@dataclass(frozen=True, slots=True)
class Service:
    """A service that can be asked as anyone there is a key for."""

    http: httpx2.AsyncClient
    keys: Mapping[Asker, str]

    async def search(self, asker: Asker, body: Body) -> SearchReply:
        """The ranking for *body*, with the time it took."""
        return await self._post(asker, "/v1/search", body=body, reply_type=SearchReply)

    async def query(self, asker: Asker, body: Body) -> QueryReply:
        """The cited answer to *body*, with the time it took."""
        return await self._post(asker, "/v1/query", body=body, reply_type=QueryReply)

    async def document_text(self, asker: Asker, external_id: str) -> str | None:
        """The stored text that spans count in, None where the asker has no such document."""
        headers = {"Authorization": f"Bearer {self.keys[asker]}"}
        try:
            response = await self.http.get(f"/v1/documents/{quote(external_id)}", headers=headers)
        except httpx2.TransportError as exc:
            raise CannotRun(f"{self.http.base_url} cannot be reached ({type(exc).__name__} {exc})") from exc
        text = response.json().get("text") if response.status_code == httpx2.codes.OK else None
        return text if isinstance(text, str) else None

    async def _post(self, asker: Asker, route: str, *, body: Body, reply_type: type[ReplyT]) -> ReplyT:
        where = f"POST {route} as {asker} for {body['query']!r}"
        try:
            response, elapsed_ms = await self._patient_post(asker, route, body)
            response.raise_for_status()
            return reply_type.model_validate(response.json() | {"elapsed_ms": elapsed_ms})
        except httpx2.HTTPStatusError as exc:
            raise CannotRun(f"{where} was answered with {exc.response.status_code}: {exc.response.text[:300]}") from exc
        except httpx2.TransportError as exc:
            raise CannotRun(f"{where}: {self.http.base_url} cannot be reached ({type(exc).__name__} {exc})") from exc
        except (TypeError, ValueError) as exc:  # not JSON, or not the promised fields
            found = " ".join(str(exc).split())[:300]
            raise CannotRun(f"{where} was answered with something else than {reply_type.__name__}: {found}") from exc

    async def _patient_post(self, asker: Asker, route: str, body: Body) -> tuple[httpx2.Response, float]:
        headers = {"Authorization": f"Bearer {self.keys[asker]}"}
        for _ in range(ATTEMPTS):
            sent_at = time.perf_counter()
            response = await self.http.post(route, json=body, headers=headers)
            elapsed_ms = (time.perf_counter() - sent_at) * 1000
            if response.status_code != httpx2.codes.TOO_MANY_REQUESTS:
                break
            await asyncio.sleep(min(float(response.headers.get("Retry-After", 1)), LONGEST_PAUSE_S))
        return response, elapsed_ms


@asynccontextmanager
async def remote_service(url: str, keys_file: Path | None, askers: Iterable[Asker]) -> AsyncIterator[Service]:
    """The service at *url*, asked with the keys of a file; its tenants hold the corpus already."""
    keys = _keys_for(askers, keys_file)
    async with _client(url) as http:
        yield Service(http, keys)


@asynccontextmanager
async def started_service(keys_file: Path, askers: Iterable[Asker]) -> AsyncIterator[Service]:
    """A service started here over the tenants that are there, asked with the keys of a file."""
    keys = _keys_for(askers, keys_file)
    async with _serving() as url, _client(url) as http:
        yield Service(http, keys)


@asynccontextmanager
async def local_service(corpora: Iterable[Corpus], askers: Iterable[Asker]) -> AsyncIterator[Service]:
    """A service started here, with throwaway tenants that hold *corpora*; all of it is gone afterwards."""
    corpora = tuple(corpora)
    try:
        for corpus in corpora:
            await _fill(corpus)
        keys = {asker: await _create_key(asker) for asker in askers}
        async with _serving() as url, _client(url) as http:
            yield Service(http, keys)
    finally:
        for corpus in corpora:
            await _clear(corpus)


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, timeout=REQUEST_TIMEOUT_S)


def _keys_for(askers: Iterable[Asker], keys_file: Path | None) -> dict[Asker, str]:
    keys = _read_keys(keys_file) if keys_file else {}
    if missing := [str(asker) for asker in askers if asker not in keys]:
        raise CannotRun(f"{keys_file or '--keys'} has no key for {'; '.join(missing)}")
    return keys


def _read_keys(path: Path) -> dict[Asker, str]:
    class Key(BaseModel):
        tenant: str
        groups: tuple[str, ...] = ()
        key: str

    try:
        keys = TypeAdapter(list[Key]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as exc:
        raise CannotRun(f"the keys in {path} cannot be read: {exc}") from exc
    return {Asker(key.tenant, tuple(sorted(key.groups))): key.key for key in keys}


def throwaway(tenant: str) -> str:
    """The name of the tenant that holds a corpus while a run lasts."""
    return f"eval-{tenant}"


async def _fill(corpus: Corpus) -> None:
    name = throwaway(corpus.tenant)
    await _rag("tenant", "delete", name, "--if-exists", "--yes")
    await _rag("tenant", "create", name)
    await _ingest(corpus.path, name)


async def _clear(corpus: Corpus) -> None:
    try:
        await _rag("tenant", "delete", throwaway(corpus.tenant), "--if-exists", "--yes")
    except CannotRun as exc:  # must not hide why the run ended
        sys.stderr.write(f"a throwaway tenant is left behind: {exc}\n")


async def _create_key(asker: Asker) -> str:
    groups = ("--groups", ",".join(asker.groups)) if asker.groups else ()
    key = await _rag("key", "create", "--tenant", throwaway(asker.tenant), "--scopes", "query", *groups)
    return key.strip()


async def _ingest(path: Path, tenant: str) -> None:
    layout = ("--jsonl",) if path.suffix == ".jsonl" else ()
    sys.stderr.write(f"ingesting {path} as {tenant}\n")
    output = await _rag("ingest", str(path), "--tenant", tenant, "--json", *layout, accepted=(0, 1))
    try:
        summary = json.loads(output.splitlines()[-1])
        failed, failures = summary["failed"], summary.get("failures")
    except (IndexError, KeyError, TypeError, ValueError) as exc:
        raise CannotRun(f"`rag ingest {path}` printed no summary") from exc
    if failed:
        raise CannotRun(f"{failed} documents of {path} could not be ingested: {failures}")


async def _rag(*arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
    process = await asyncio.create_subprocess_exec(*RAG, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = await process.communicate()
    finally:
        await _stop(process)
    if process.returncode not in (accepted if output else (0,)):
        command = " ".join(("rag", *arguments))
        raise CannotRun(f"`{command}` ended with {process.returncode}: {_last_words(errors)}")
    return output.decode()


@asynccontextmanager
async def _serving() -> AsyncIterator[str]:
    port = _free_port()
    deadlines = (f"RAG_RERANK_DEADLINE_S={RERANK_DEADLINE_S}", f"RAG_REQUEST_TIMEOUT_S={REQUEST_TIMEOUT_S}")
    command = ("/usr/bin/env", *deadlines, *RAG, "serve", "--port", str(port), "--no-worker")
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            await _until_ready(url, process, log)
            yield url
        finally:
            await _stop(process)


async def _until_ready(url: str, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
    give_up_at = time.monotonic() + START_TIMEOUT_S
    async with _client(url) as http:
        while time.monotonic() < give_up_at and process.returncode is None:
            if await _is_ready(http):
                return
            await asyncio.sleep(0.2)
    log.seek(0)
    raise CannotRun(f"`rag serve` did not become ready: {_last_words(log.read())}")


async def _is_ready(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), timeout=20)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _last_words(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"
