from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
import pytest

from rag.calls import Usage
from rag.store.engine import Database
from rag.store.ledger import Settlement, settle
from rag.store.tenancy import create_tenant
from tests.e2e.conftest import CORPUS, Caller, MakeKey
from tests.e2e.test_refusals_http import assert_problem
from tests.integration.spending import entry

BUDGETS = "/v1/admin/budgets"
DAILY = {"unit": "tokens", "period": "day", "amount": 100_000}


@pytest.fixture
async def admins(
    http: httpx2.AsyncClient, service_database: Database, tenant_names: Any, make_key: MakeKey
) -> tuple[Caller, Caller]:
    """Administrators of two tenants."""
    tenants = [await create_tenant(service_database, next(tenant_names)) for _ in range(2)]
    one, two = [Caller(http, await make_key(tenant, "admin")) for tenant in tenants]
    return one, two


async def test_a_budget_is_set_shown_changed_and_deleted(admins: tuple[Caller, Caller]) -> None:
    admin, _ = admins

    made = await admin.send("PUT", BUDGETS, json=DAILY)
    await admin.send("PUT", BUDGETS, json={"unit": "money", "period": "prepaid", "amount": "12.50"})
    await admin.send("PUT", BUDGETS, json={**DAILY, "amount": 200_000})
    shown = (await admin.send("GET", BUDGETS)).json()["budgets"]
    deleted = await admin.send("DELETE", BUDGETS, params={"unit": "money", "period": "prepaid"})

    assert made.status_code == 200
    assert [(b["unit"], b["period"], b["amount"], b["left"]) for b in shown] == [
        ("money", "prepaid", "12.5", "12.5"), ("tokens", "day", "200000", "200000"),
    ]  # fmt: skip
    assert shown[0]["resets_at"] is None
    assert shown[1]["resets_at"].endswith("T00:00:00Z")
    assert deleted.status_code == 204
    assert [b["unit"] for b in (await admin.send("GET", BUDGETS)).json()["budgets"]] == ["tokens"]


@pytest.mark.parametrize(
    "body",
    [
        {**DAILY, "amount": -1}, {**DAILY, "amount": "NaN"}, {**DAILY, "amount": "Infinity"},
        {**DAILY, "amount": "1e30"}, {**DAILY, "amount": 1.5}, {**DAILY, "amount": "0.5"},
        {**DAILY, "amount": None}, {**DAILY, "unit": "words"}, {**DAILY, "period": "year"}, {**DAILY, "tenant": "acme"},
        {"unit": "tokens", "period": "day"},
    ],
)  # fmt: skip
async def test_a_budget_that_means_nothing_is_refused(admins: tuple[Caller, Caller], body: dict[str, Any]) -> None:
    assert_problem(await admins[0].send("PUT", BUDGETS, json=body), 422, "invalid_request")


async def test_a_budget_of_another_tenant_is_not_there(admins: tuple[Caller, Caller]) -> None:
    mine, theirs = admins
    await mine.send("PUT", BUDGETS, json=DAILY)
    which = {"unit": "tokens", "period": "day"}

    seen = (await theirs.send("GET", BUDGETS)).json()
    deleted = await theirs.send("DELETE", BUDGETS, params=which)

    assert seen == {"budgets": []}
    assert_problem(deleted, 404, "not_found")
    assert len((await mine.send("GET", BUDGETS)).json()["budgets"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "request_"),
    [
        ("GET", BUDGETS, {}), ("PUT", BUDGETS, {"json": DAILY}), ("GET", "/v1/admin/usage", {}),
        ("DELETE", BUDGETS, {"params": {"unit": "tokens", "period": "day"}}),
    ],
    ids=["show", "set", "usage", "delete"],
)  # fmt: skip
async def test_only_administrators_may_see_or_set_what_their_tenant_may_use(
    newcomer: Caller, method: str, path: str, request_: dict[str, Any]
) -> None:
    stranger = await newcomer.http.request(method, path, **request_)

    assert_problem(await newcomer.send(method, path, **request_), 403, "forbidden")
    assert_problem(stranger, 401, "unauthenticated")


async def test_a_query_is_in_the_usage_of_its_tenant_and_in_no_other(
    http: httpx2.AsyncClient, service_database: Database, tenant_names: Any, make_key: MakeKey, rival: Caller
) -> None:
    tenant = await create_tenant(service_database, next(tenant_names))  # acme's usage is of every test before
    admin = Caller(http, await make_key(tenant, "query ingest admin"))
    await admin.put("refunds.md", json=CORPUS["guides/refunds.md"])
    path = "/v1/admin/usage?group_by=feature,model,day"
    theirs = (await rival.send("GET", path)).json()["total"]["calls"]

    await admin.query("How long does a refund take?")
    used = (await admin.send("GET", path)).json()

    assert used["total"]["calls"] == 1
    assert [(g["feature"], g["model"].partition("/")[0], g["cost"]) for g in used["groups"]] == [
        ("query", "extractive", "0")
    ]
    assert used["currency"] == "USD"
    assert (await rival.send("GET", path)).json()["total"]["calls"] == theirs


async def test_usage_without_a_price_costs_null(
    http: httpx2.AsyncClient, service_database: Database, tenant_names: Any, make_key: MakeKey
) -> None:
    tenant = await create_tenant(service_database, next(tenant_names))
    admin = Caller(http, await make_key(tenant, "admin"))
    known = entry(1, provider="openai", model="gpt-4o-mini", usage=Usage(1000, 0, 0, 100, 0))
    unknown = entry(2, provider="127.0.0.1", model="ours", usage=Usage(10, 0, 0, 1, 0))
    ended = Settlement(uuid4(), "query", "answer", (known, unknown))
    await settle(service_database, tenant, [ended])

    used = (await admin.send("GET", "/v1/admin/usage?group_by=model")).json()

    # 1,000 x 0.15 + 100 x 0.60 dollars for a million
    assert [(g["model"], g["cost"]) for g in used["groups"]] == [
        ("127.0.0.1/ours", None),
        ("openai/gpt-4o-mini", "0.00021"),
    ]
    assert (used["total"]["cost"], used["total"]["known_cost"]) == (None, "0.00021")
    assert used["total"]["unpriced"] == ["127.0.0.1/ours"]
    assert used["total"]["tokens"]["input_uncached"] == 1010


@pytest.mark.parametrize(
    "query",
    ["from=soon", "to=2026-13-01", "from=2026-02-01&to=2026-01-01", "group_by=tenant", "from=9999-12-31T23:59-14:00",
     "from=0001-01-01&to=0001-01-01T00:00%2B14:00", "from=2020-01-01"],
)  # fmt: skip
async def test_a_report_that_means_nothing_is_refused(admins: tuple[Caller, Caller], query: str) -> None:
    assert_problem(await admins[0].send("GET", f"/v1/admin/usage?{query}"), 422, "invalid_input")


@pytest.mark.parametrize("query", ["from=0001-01-01&to=0001-12-31", "from=9999-01-01&to=9999-12-31T23:59"])
async def test_the_first_and_last_moments_there_are_make_a_report(admins: tuple[Caller, Caller], query: str) -> None:
    response = await admins[0].send("GET", f"/v1/admin/usage?{query}")

    assert response.status_code == 200
