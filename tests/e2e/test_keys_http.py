from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import httpx2
import pytest

from rag.store.engine import Database
from rag.store.tenancy import principal_of
from rag.values import TenantId
from tests.e2e.conftest import MARKDOWN, Caller, MakeKey, Service, document

pytestmark = pytest.mark.usefixtures("quiet_log")

JOB = "/v1/jobs/00000000-0000-0000-0000-000000000001"
ROUTES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/search", {"json": {"query": "refund"}}),
    ("POST", "/v1/query", {"json": {"query": "refund"}}),
    ("POST", "/v1/query", {"json": {"query": "refund", "stream": True}}),
    ("PUT", "/v1/documents/a.md", {"content": b"# A", "headers": MARKDOWN}),
    ("GET", "/v1/documents", {}),
    ("GET", "/v1/documents/a.md", {}),
    ("DELETE", "/v1/documents/a.md", {}),
    ("GET", "/v1/chunks", {"params": {"external_id": "a.md"}}),
    ("GET", JOB, {}),
    ("POST", f"{JOB}/cancel", {}),
]
WRITING = [route for route in ROUTES if route[0] in {"PUT", "DELETE"} or "jobs" in route[1]]
ASKING = ROUTES[:3]


def names(routes: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    return [f"{method} {path} {'stream' if 'stream' in str(request) else ''}" for method, path, request in routes]


def assert_problem(response: httpx2.Response, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(("method", "path", "request_"), ROUTES, ids=names(ROUTES))
async def test_every_route_asks_for_a_key(
    http: httpx2.AsyncClient, method: str, path: str, request_: dict[str, Any]
) -> None:
    response = await http.request(method, path, **request_)

    assert_problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


def unknown_key() -> str:
    return "rag_" + base64.urlsafe_b64encode(b"x" * 64).decode().rstrip("=")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Basic dTpw", "rag_abc", "Bearer rag_", "Bearer rag_abc", "Bearer sk-123",
     f"Bearer {unknown_key()}", f"Bearer {'x' * 5000}", "Bearer rag_!!!!", "Bearer rag_\xe4\xf6", "Bearer a b"],
)  # fmt: skip
async def test_a_missing_malformed_or_unknown_key_is_refused(http: httpx2.AsyncClient, authorization: str) -> None:
    headers = {"Authorization": authorization.encode("latin-1")}

    response = await http.post("/v1/search", json={"query": "refund"}, headers=headers)  # type: ignore[arg-type]

    assert_problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_key_with_another_secret_or_another_tenant_is_refused(acme: Caller, rival: Caller) -> None:
    raw, foreign = (base64.urlsafe_b64decode(key.removeprefix("rag_") + "==") for key in (acme.key, rival.key))

    for forged in (raw[:-1] + bytes([raw[-1] ^ 1]), foreign[:16] + raw[16:], raw[:32] + foreign[32:]):
        key = "rag_" + base64.urlsafe_b64encode(forged).decode().rstrip("=")
        assert_problem(
            await Caller(acme.http, key).send("POST", "/v1/search", json={"query": "x"}), 401, "unauthenticated"
        )


async def test_the_word_bearer_may_have_any_case(acme: Caller) -> None:
    headers = {"Authorization": f"bearer {acme.key}"}

    assert (await acme.http.get("/v1/documents", headers=headers)).status_code == 200


@pytest.fixture
def run(service: tuple[Service, str], process_environment: dict[str, str]) -> Callable[..., CompletedProcess[str]]:
    """Runs a `rag` command beside the running service."""

    def finish(*arguments: str) -> CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rag", *arguments],
            env={**process_environment, "DATABASE_URL": service[1]}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    return finish


async def test_a_revoked_key_is_refused_at_its_next_request_and_no_other_is(
    newcomer: Caller, service_database: Database, make_key: MakeKey, run: Callable[..., CompletedProcess[str]]
) -> None:
    tenant = (await principal_of(service_database, newcomer.key)).tenant_id
    other = Caller(newcomer.http, await make_key(tenant, "ingest"))
    before = [(await caller.send("GET", "/v1/documents")).status_code for caller in (newcomer, other)]

    done = run("key", "revoke", newcomer.key[:38])
    refused = await newcomer.send("GET", "/v1/documents")
    allowed = await other.send("GET", "/v1/documents")

    assert before == [200, 200]
    assert (done.returncode, done.stdout) == (0, f"{newcomer.key[:38]} is refused from now on\n"), done.stderr
    assert_problem(refused, 401, "unauthenticated")
    assert allowed.status_code == 200


async def test_a_key_may_be_revoked_whole_and_twice(
    newcomer: Caller, run: Callable[..., CompletedProcess[str]]
) -> None:
    codes = [run("key", "revoke", newcomer.key).returncode for _ in range(2)]

    assert codes == [0, 0]
    assert_problem(await newcomer.send("GET", "/v1/documents"), 401, "unauthenticated")


@pytest.mark.parametrize(("method", "path", "request_"), WRITING, ids=names(WRITING))
async def test_a_key_that_may_only_ask_cannot_write(
    acme: Caller, acme_id: TenantId, make_key: MakeKey, method: str, path: str, request_: dict[str, Any]
) -> None:
    reader = Caller(acme.http, await make_key(acme_id, "query"))

    assert_problem(await reader.send(method, path, **request_), 403, "forbidden")


@pytest.mark.parametrize(("method", "path", "request_"), ASKING, ids=names(ASKING))
async def test_a_key_that_may_only_write_cannot_ask(
    acme: Caller, acme_id: TenantId, make_key: MakeKey, method: str, path: str, request_: dict[str, Any]
) -> None:
    writer = Caller(acme.http, await make_key(acme_id, "ingest"))

    assert_problem(await writer.send(method, path, **request_), 403, "forbidden")


@pytest.mark.parametrize("scope", ["query", "ingest", "admin"])
async def test_any_scope_may_read_documents(acme: Caller, acme_id: TenantId, make_key: MakeKey, scope: str) -> None:
    somebody = Caller(acme.http, await make_key(acme_id, scope))

    assert (await somebody.document("guides/pump.md"))["title"] == "Pump"
    assert (await somebody.chunks("guides/pump.md"))["chunks"]


async def test_the_admin_scope_may_ask_and_write(acme: Caller, acme_id: TenantId, make_key: MakeKey) -> None:
    admin = Caller(acme.http, await make_key(acme_id, "admin"))

    assert await admin.found("refund")
    assert (await admin.send("DELETE", document("none.md"))).status_code == 404


async def test_every_route_gives_404_for_what_another_tenant_has(newcomer: Caller, rival: Caller) -> None:
    job = (await newcomer.put("boxes.md", json={"text": "# Boxes"}))["job_id"]

    for method, path in (
        ("GET", document("boxes.md")), ("DELETE", document("boxes.md")),
        ("GET", "/v1/chunks?external_id=boxes.md"), ("GET", f"/v1/jobs/{job}"), ("POST", f"/v1/jobs/{job}/cancel"),
    ):  # fmt: skip
        assert_problem(await rival.send(method, path), 404, "not_found")
    assert (await newcomer.document("boxes.md"))["chunks"] == 1


async def test_a_tenant_finds_lists_and_answers_nothing_of_another(acme: Caller, rival: Caller) -> None:
    everything = {"any": [{"field": "lang", "op": "exists", "value": True}, {"not": {"any": []}}]}

    theirs = set(await rival.found("how long does a refund take?", filters=everything, top_k=100))
    listed = (await rival.send("GET", "/v1/documents")).json()["documents"]
    ours = set(await acme.found("rival refund ninety days RVL-77", filters=everything, top_k=100))

    assert theirs == {d["external_id"] for d in listed} == {"secret/plans.md"}
    assert "secret/plans.md" not in ours
    assert (await acme.query("What does code RVL-77 open?"))["status"] == "no_evidence"
    assert "ninety" in (await rival.query("How long does a refund take?"))["answer"]


async def test_two_tenants_keep_documents_of_one_name_apart(acme: Caller, newcomer: Caller) -> None:
    await newcomer.put("guides/refunds.md", json={"text": "# Ours\n\nWe give no refund at all.\n"})
    await newcomer.send("DELETE", document("guides/refunds.md"))

    assert (await acme.found("how long does a refund take?"))[0] == "guides/refunds.md"
