"""The service over real HTTP: one `rag serve` process with the real models, and apps of a test's own with fakes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import pytest_asyncio
import uvicorn

from rag.answering.answerer import Answerer
from rag.app import Background, create_app
from rag.llm.lanes import Chain, Lanes
from rag.protocols import ChatModel
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.settings import Settings
from rag.store.engine import Database, open_database
from rag.store.tenancy import create_key, create_tenant
from rag.telemetry import Metrics
from rag.values import TenantId
from rag.wiring import Services, answering_of, expander, guarded, open_cache
from tests.fakes import FakeChat, FakeEmbedder, FakeReranker, embedders

START_S = 30
JOB_S = 20
MARKDOWN = {"Content-Type": "text/markdown"}
LISTENS = re.compile(r"serving (http://[\d.]+:\d+)")

CORPUS: dict[str, dict[str, Any]] = {
    "guides/refunds.md": {
        "text": "# Refunds\n\n## How long it takes\n\nA refund takes five business days after it is approved.\n\n"
        "## Fees\n\nProcessing fees are not returned with a refund. A chargeback costs 15 EUR.\n",
        "doc_type": "guide", "tags": ["money"], "metadata": {"level": 2, "public": True},
    },
    "guides/pump.md": {
        "text": "# Pump\n\nPrime the pump before its first use. Change the oil of the pump every 500 hours.\n",
        "doc_type": "guide", "metadata": {"level": 3},
    },
    "größen/📦 boxes.md": {
        "text": "# Größen 📦\n\nThe 📦 parcel box ‘Größe XL’ holds 45 kg – not more.\n\nThe small box 🎁 holds 5 kg.\n",
        "doc_type": "table", "source": "wiki",
    },
    "ops/errors.md": {
        "text": "# Errors\n\n| Code | Meaning |\n|--|--|\n| HLY-4031 | The disk of the controller is full |\n"
        "| HLY-4032 | The controller lost its network |\n",
        "doc_type": "reference",
    },
    "hr/salaries.md": {
        "text": "# Salaries\n\nThe salary band B7 starts at 71,000 EUR a year.\n", "acl": ["hr", "board"],
        "metadata": {"band": "B7"},
    },
    "travel-2024.md": {
        "text": "# Travel policy\n\nThe hotel allowance is 120 EUR a night.\n", "valid_to": "2025-01-01",
    },
    "travel-2025.md": {
        "text": "# Travel policy\n\nThe hotel allowance is 155 EUR a night.\n", "valid_from": "2025-01-01",
    },
}  # fmt: skip
RIVALS = {
    "secret/plans.md": {"text": "# Plans\n\nThe rival's refund takes ninety days. Code RVL-77 opens the vault.\n"}
}

MakeKey = Callable[..., Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a key."""

    http: httpx2.AsyncClient
    key: str

    async def send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.key}", **request.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **request)

    async def search(self, query: str, **body: Any) -> dict[str, Any]:
        return await self._ok("POST", "/v1/search", json={"query": query, **body})

    async def query(self, query: str, **body: Any) -> dict[str, Any]:
        return await self._ok("POST", "/v1/query", json={"query": query, **body})

    async def document(self, external_id: str) -> dict[str, Any]:
        return await self._ok("GET", document(external_id))

    async def chunks(self, external_id: str, **page: int) -> dict[str, Any]:
        return await self._ok("GET", "/v1/chunks", params={"external_id": external_id, **page})

    async def found(self, query: str, **body: Any) -> list[str]:
        """The external ids of the hits, best first."""
        return [hit["external_id"] for hit in (await self.search(query, **body))["hits"]]

    async def put(self, external_id: str, **request: Any) -> dict[str, Any]:
        """The ended job of an upload."""
        accepted = await self.send("PUT", document(external_id), **request)
        assert accepted.status_code == 202, accepted.text
        give_up = time.monotonic() + JOB_S
        while time.monotonic() < give_up:
            job = await self._ok("GET", f"/v1/jobs/{accepted.json()['job_id']}")
            if job["finished_at"]:
                return job
            await asyncio.sleep(0.05)
        raise AssertionError(f"{external_id} was not ingested within {JOB_S} s: {job}")

    async def _ok(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        response = await self.send(method, path, **request)
        assert response.status_code == 200, response.text
        return dict(response.json())


def document(external_id: str) -> str:
    return f"/v1/documents/{quote(external_id)}"


@dataclass(frozen=True, slots=True)
class Service:
    url: str
    log: Path
    pid: int


@pytest.fixture(scope="session")
def service(
    clone: Callable[[], str], process_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str]]:
    """A running `rag serve`, and the URL of its database."""
    database_url = clone()
    own = {"DATABASE_URL": database_url, "RAG_POOL_SIZE": "4"}
    with serving_process({**process_environment, **own}, tmp_path_factory.mktemp("service")) as service:
        yield service, database_url


@contextmanager
def serving_process(environment: dict[str, str], folder: Path) -> Iterator[Service]:
    """A running `rag serve` whose data and log are in *folder*."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag", "serve", "--port", "0"],
            env={**environment, "RAG_HOME": str(folder)}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield Service(_address(process, folder / "log"), folder / "log", process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        if found := LISTENS.search(log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the service did not start: {log.read_text()}")


@pytest.fixture
def quiet_log(service: tuple[Service, str]) -> Iterator[None]:
    """Fails the test when the service logged a traceback meanwhile."""
    log = service[0].log
    before = log.stat().st_size
    yield
    assert "Traceback" not in log.read_bytes()[before:].decode(errors="replace")


@pytest_asyncio.fixture(scope="session")
async def http(service: tuple[Service, str]) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=service[0].url, timeout=30) as client:
        yield client


@pytest_asyncio.fixture(scope="session")
async def service_database(service: tuple[Service, str]) -> AsyncIterator[Database]:
    async with open_database(service[1], size=2, timeout_s=10.0) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session")
async def make_key(service_database: Database) -> MakeKey:
    """Makes a key of a tenant, with scopes and groups separated by blanks."""

    async def make(tenant: TenantId, scopes: str = "query ingest", groups: str = "") -> str:
        names = frozenset(scopes.split()), frozenset(groups.split())
        return await create_key(service_database, tenant, scopes=names[0], groups=names[1])

    return make


@pytest_asyncio.fixture
async def newcomer(
    http: httpx2.AsyncClient, service_database: Database, tenant_names: Iterator[str], make_key: MakeKey
) -> Caller:
    """Somebody of a tenant of the test's own, without documents."""
    return Caller(http, await make_key(await create_tenant(service_database, next(tenant_names))))


@pytest_asyncio.fixture(scope="session")
async def acme_id(service_database: Database) -> TenantId:
    return await create_tenant(service_database, "acme")


@pytest_asyncio.fixture(scope="session")
async def acme(http: httpx2.AsyncClient, acme_id: TenantId, make_key: MakeKey) -> Caller:
    """Somebody of the tenant that has CORPUS, in no group. Tests leave its documents as they are."""
    return await _with_documents(Caller(http, await make_key(acme_id)), CORPUS)


@pytest_asyncio.fixture(scope="session")
async def acme_hr(acme: Caller, acme_id: TenantId, make_key: MakeKey) -> Caller:
    """Somebody of the same tenant in the group hr."""
    return Caller(acme.http, await make_key(acme_id, groups="hr staff"))


@pytest_asyncio.fixture(scope="session")
async def rival(http: httpx2.AsyncClient, service_database: Database, make_key: MakeKey) -> Caller:
    """Somebody of another tenant, which has RIVALS, with every scope and acme's groups."""
    tenant = await create_tenant(service_database, "rival")
    return await _with_documents(Caller(http, await make_key(tenant, "query ingest admin", "hr board")), RIVALS)


async def _with_documents(caller: Caller, documents: dict[str, dict[str, Any]]) -> Caller:
    jobs = await asyncio.gather(*(caller.put(name, json=body) for name, body in documents.items()))
    assert {job["state"] for job in jobs} == {"done"}, jobs
    return caller


@dataclass(frozen=True, slots=True)
class FakeService:
    """An app in this process over a database of its own, with fake models."""

    http: httpx2.AsyncClient
    database: Database
    database_url: str

    async def caller(self, name: str = "fake", scopes: str = "query ingest") -> Caller:
        return await self.colleague(await create_tenant(self.database, name), scopes=scopes)

    async def colleague(self, tenant: TenantId, groups: str = "", scopes: str = "query ingest") -> Caller:
        """Somebody else of a tenant that is there."""
        names = frozenset(scopes.split()), frozenset(groups.split())
        return Caller(self.http, await create_key(self.database, tenant, scopes=names[0], groups=names[1]))


OpenFake = Callable[..., AbstractAsyncContextManager[FakeService]]


@pytest.fixture
def fake_service(clone: Callable[[], str], drop: Callable[[str], None]) -> OpenFake:
    """Serves fakes: *chat*, or an app with changed settings, with *background* beside it."""

    @asynccontextmanager
    async def opened(
        chat: ChatModel | None = None, background: Background | None = None, **changed: Any
    ) -> AsyncIterator[FakeService]:
        url = clone()
        settings = Settings(pool_size=4, pool_timeout_s=1.0, **changed)
        async with open_database(url, size=settings.pool_size, timeout_s=settings.pool_timeout_s) as database:

            @asynccontextmanager
            async def services(_: Settings, metrics: Metrics) -> AsyncIterator[Services]:
                asked = chat or FakeChat("Yes. [1]")
                async with guarded(asked, settings, database, metrics) as guarded_chat:
                    services = _fake_services(settings, database, guarded_chat, metrics)
                    yield replace(services, lanes=getattr(asked, "lanes", services.lanes))

            app = create_app(settings, services, background=background)
            async with _serving(app) as address, httpx2.AsyncClient(base_url=address, timeout=30) as http:
                yield FakeService(http, database, url)
        drop(url)

    return opened


def _fake_services(settings: Settings, database: Database, chat: ChatModel, metrics: Metrics) -> Services:
    embedder, reranker = FakeEmbedder(), FakeReranker()
    retriever = Retriever(
        database,
        dense=DenseLeg(database, embedders(embedder), exact_below=settings.exact_below),
        lexical=LexicalLeg(database),
        reranker=reranker,
        ranking=Ranking(rerank_top=50, rerank_deadline_s=3.0, rerank_weight=1.0, fused_weight=2.0),
        expanding=expander(settings, chat),
    )
    answerer = Answerer(
        database,
        retriever=retriever,
        reranker=reranker,
        chat=chat,
        answering=replace(answering_of(settings), min_support=0.5),
        cache=open_cache(settings, database, embedders(embedder)),
    )
    lanes = Lanes({"answer": Chain((), extractive=True)})
    return Services(settings, database, embedders(embedder), retriever, answerer, lanes, metrics)


@asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
