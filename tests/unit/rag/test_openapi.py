"""What `/openapi.json` says to programs that are generated from it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from rag.app import create_app
from rag.settings import Settings


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return create_app(Settings(), lambda *_: nullcontext()).openapi()  # type: ignore[arg-type,return-value]


def _routes(openapi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{verb} {path}": route for path, verbs in openapi["paths"].items() for verb, route in verbs.items()}


def test_every_route_of_a_tenant_takes_a_key(openapi: dict[str, Any]) -> None:
    [scheme] = openapi["components"]["securitySchemes"].values()

    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    without = {name for name, route in _routes(openapi).items() if not route.get("security")}
    assert without == {"get /healthz", "get /readyz", "get /metrics"}


def test_errors_are_problems_and_never_lists_of_faults(openapi: dict[str, Any]) -> None:
    ours = {name: route for name, route in _routes(openapi).items() if "security" in route}

    assert "HTTPValidationError" not in openapi["components"]["schemas"]
    for name, route in ours.items():
        content = route["responses"]["default"].get("content")
        if name.endswith("/v1/chat/completions") or "/v1/models" in name:
            assert content is None
        else:
            assert content["application/problem+json"]["schema"]["required"] == [
                "type", "status", "code", "detail", "request_id"
            ]  # fmt: skip
