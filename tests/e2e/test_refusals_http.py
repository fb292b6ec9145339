"""What cannot be served is refused with a clear 4xx problem; nothing a caller sends makes the service fail."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import httpx2
import pytest

from tests.e2e.conftest import MARKDOWN, Caller, document

pytestmark = pytest.mark.usefixtures("quiet_log")

JSON = {"Content-Type": "application/json"}


def assert_problem(response: httpx2.Response, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code), body
    assert response.headers["content-type"] == "application/problem+json"
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]


def filtered(field: str, op: str, value: str) -> str:
    return f'{{"query": "x", "filters": {{"field": "{field}", "op": "{op}", "value": {value}}}}}'


def nested(depth: int) -> str:
    leaf = '{"field": "lang", "op": "eq", "value": "en"}'
    return '{"query": "x", "filters": ' + '{"not": ' * depth + leaf + "}" * depth + "}"


QUESTIONS: dict[str, tuple[str | bytes, int, str]] = {
    "NUL": (r'{"query": "a\u0000b"}', 422, "invalid_input"),
    "lone surrogate": (r'{"query": "\ud800"}', 422, "invalid_input"),
    "lone surrogate in a name": (r'{"query": "x", "\udfff": 1}', 422, "invalid_request"),
    "empty": ('{"query": ""}', 422, "invalid_input"),
    "white space": (r'{"query": " \n\t\u00a0\u3000"}', 422, "invalid_input"),
    "1 MB": (json.dumps({"query": "word " * 200_000}), 413, "too_large"),
    "no question": ("{}", 422, "invalid_request"),
    "question null": ('{"query": null}', 422, "invalid_request"),
    "question a number": ('{"query": 5}', 422, "invalid_request"),
    "question a list": ('{"query": ["x"]}', 422, "invalid_request"),
    "unknown field": ('{"query": "x", "limit": 5}', 422, "invalid_request"),
    "tenant named": ('{"query": "x", "tenant_id": "5"}', 422, "invalid_request"),
    "top_k text": ('{"query": "x", "top_k": "6"}', 422, "invalid_request"),
    "top_k fraction": ('{"query": "x", "top_k": 1.5}', 422, "invalid_request"),
    "top_k 0": ('{"query": "x", "top_k": 0}', 422, "invalid_request"),
    "top_k negative": ('{"query": "x", "top_k": -1}', 422, "invalid_request"),
    "top_k 101": ('{"query": "x", "top_k": 101}', 422, "invalid_request"),
    "top_k true": ('{"query": "x", "top_k": true}', 422, "invalid_request"),
    "top_k null": ('{"query": "x", "top_k": null}', 422, "invalid_request"),
    "top_k NaN": ('{"query": "x", "top_k": NaN}', 422, "invalid_request"),
    "top_k huge": ('{"query": "x", "top_k": 1' + "0" * 100 + "}", 422, "invalid_request"),
    "rerank text": ('{"query": "x", "rerank": "yes"}', 422, "invalid_request"),
    "rerank number": ('{"query": "x", "rerank": 1}', 422, "invalid_request"),
    "explain text": ('{"query": "x", "explain": "true"}', 422, "invalid_request"),
    "as_of a word": ('{"query": "x", "as_of": "tomorrow"}', 422, "invalid_input"),
    "as_of a number": ('{"query": "x", "as_of": 5}', 422, "invalid_request"),
    "as_of with NUL": (r'{"query": "x", "as_of": "2025-01-01\u0000"}', 422, "invalid_input"),
    "filters a list": ('{"query": "x", "filters": []}', 422, "invalid_request"),
    "filters text": ('{"query": "x", "filters": "lang=en"}', 422, "invalid_request"),
    "filters empty": ('{"query": "x", "filters": {}}', 422, "invalid_input"),
    "filter field unknown": (filtered("acl", "eq", '"hr"'), 422, "invalid_input"),
    "filter field of SQL": (filtered("lang' OR '1'='1", "eq", '"x"'), 422, "invalid_input"),
    "filter op unknown": (filtered("lang", "like", '"x"'), 422, "invalid_input"),
    "filter value a number": (filtered("doc_type", "eq", "5"), 422, "invalid_input"),
    "filter value null": (filtered("metadata.n", "eq", "null"), 422, "invalid_input"),
    "filter value NaN": (filtered("metadata.n", "eq", "NaN"), 422, "invalid_input"),
    "filter value infinite": (filtered("metadata.n", "lt", "-1e999"), 422, "invalid_input"),
    "filter value NUL": (filtered("lang", "eq", r'"\u0000"'), 422, "invalid_input"),
    "filter value surrogate": (filtered("lang", "eq", r'"\ud800"'), 422, "invalid_input"),
    "filter value object": (filtered("metadata.n", "eq", '{"a": 1}'), 422, "invalid_input"),
    "filter date unknown": (filtered("created_at", "gt", '"soon"'), 422, "invalid_input"),
    "filter number too long": (filtered("metadata.n", "eq", "9" * 5000), 400, "bad_request"),
    "filters deep": (nested(17), 422, "invalid_input"),
    "filters very deep": (nested(100_000), 400, "bad_request"),
    "a list": ('[{"query": "x"}]', 422, "invalid_request"),
    "text": ('"x"', 422, "invalid_request"),
    "null": ("null", 422, "invalid_request"),
    "nothing": ("", 422, "invalid_request"),
    "malformed": ('{"query": "x"', 422, "invalid_request"),
    "malformed comma": ('{"query": "x",}', 422, "invalid_request"),
    "not UTF-8": (b'{"query": "\xff"}', 400, "bad_request"),
    "UTF-16": ('{"query": ""}'.encode("utf-16"), 422, "invalid_input"),
}


@pytest.mark.parametrize("path", ["/v1/search", "/v1/query"])
@pytest.mark.parametrize(("content", "status", "code"), QUESTIONS.values(), ids=list(QUESTIONS))
async def test_a_question_that_cannot_be_asked_is_refused(
    acme: Caller, path: str, content: str | bytes, status: int, code: str
) -> None:
    assert_problem(await acme.send("POST", path, content=content, headers=JSON), status, code)


@pytest.mark.parametrize(
    "body",
    [
        {"stream": "true"},
        {"stream": 1},
        {"max_tokens": 0},
        {"max_tokens": 8193},
        {"max_tokens": "5"},
        {"temperature": 1},
    ],
    ids=str,
)
async def test_an_answer_with_wrong_options_is_refused(acme: Caller, body: dict[str, Any]) -> None:
    assert_problem(await acme.send("POST", "/v1/query", json={"query": "x", **body}), 422, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [filtered("metadata.n", "eq", "9" * 4000), filtered("metadata.n", "gt", "-1e300"), nested(16),
     filtered("metadata.%s", "eq", '"%(tenant_id)s"'), filtered("metadata.a:b", "exists", "true"),
     filtered("valid_to", "lt", '"9999-12-31"'), filtered("created_at", "gt", '"0001-01-01"'),
     filtered("external_id", "contains", '"%"')],
)  # fmt: skip
async def test_unusual_filters_are_served(acme: Caller, body: str) -> None:
    assert (await acme.send("POST", "/v1/search", content=body, headers=JSON)).status_code == 200


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("where", ["as_of", "filter"])
async def test_moments_at_the_ends_of_the_calendar_do_no_harm(acme: Caller, moment: str, where: str) -> None:
    leaf = {"field": "created_at", "op": "gt", "value": moment}
    body = {"as_of": moment} if where == "as_of" else {"filters": leaf}

    response = await acme.send("POST", "/v1/search", json={"query": "x", **body})

    assert response.status_code in {200, 422}, response.text


@pytest.mark.parametrize(
    "question", ["' OR 1=1 --", "%(tenant_id)s %s %%", "a AND (b OR", "\\", "🎈" * 1000, "\u202e\u200b x"]
)
async def test_unusual_questions_are_served(acme: Caller, question: str) -> None:
    for path in ("/v1/search", "/v1/query"):
        assert (await acme.send("POST", path, json={"query": question})).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json", "a" * 5000]
)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/query"])
async def test_a_question_that_does_not_say_it_is_json_is_refused(acme: Caller, path: str, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}

    response = await acme.send("POST", path, content=b'{"query": "x"}', headers=headers)

    assert_problem(response, 415, "unsupported_format")
    assert len(response.json()["detail"]) < 200


async def test_json_may_say_its_charset(acme: Caller) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}

    assert (await acme.send("POST", "/v1/search", content=b'{"query": "x"}', headers=headers)).status_code == 200


DOCUMENTS: dict[str, tuple[str | bytes, int, str]] = {
    "nothing": ("", 422, "invalid_input"),
    "no content": ("{}", 422, "invalid_input"),
    "content twice": ('{"text": "a", "content_base64": "YQ=="}', 422, "invalid_input"),
    "white space": ('{"text": " \\n "}', 422, "invalid_input"),
    "unknown field": ('{"text": "a", "tenant": "x"}', 422, "invalid_input"),
    "text a number": ('{"text": 5}', 422, "invalid_input"),
    "not base64": ('{"content_base64": "***"}', 422, "invalid_input"),
    "title NUL": (r'{"text": "a", "title": "\u0000"}', 422, "invalid_input"),
    "title surrogate": (r'{"text": "a", "title": "\ud800"}', 422, "invalid_input"),
    "title too long": (json.dumps({"text": "a", "title": "x" * 1001}), 422, "invalid_input"),
    "tags text": ('{"text": "a", "tags": "x"}', 422, "invalid_input"),
    "tags empty text": ('{"text": "a", "tags": [""]}', 422, "invalid_input"),
    "acl text": ('{"text": "a", "acl": "hr"}', 422, "invalid_input"),
    "acl null in list": ('{"text": "a", "acl": [null]}', 422, "invalid_input"),
    "lang": ('{"text": "a", "lang": "english please"}', 422, "invalid_input"),
    "valid_from": ('{"text": "a", "valid_from": "soon"}', 422, "invalid_input"),
    "metadata a list": ('{"text": "a", "metadata": []}', 422, "invalid_input"),
    "metadata nested": ('{"text": "a", "metadata": {"k": {"x": 1}}}', 422, "invalid_input"),
    "metadata null": ('{"text": "a", "metadata": {"k": null}}', 422, "invalid_input"),
    "metadata NUL": (r'{"text": "a", "metadata": {"\u0000": 1}}', 422, "invalid_input"),
    "content type": ('{"text": "a", "content_type": "application/zip"}', 415, "unsupported_format"),
    "a list": ("[]", 422, "invalid_input"),
    "malformed": ("{", 422, "invalid_input"),
    "not UTF-8": (b'{"text": "\xff"}', 422, "invalid_input"),
    "very deep": ('{"text": "a", "metadata": ' + "[" * 100_000, 422, "invalid_input"),
}


@pytest.mark.parametrize(("content", "status", "code"), DOCUMENTS.values(), ids=list(DOCUMENTS))
async def test_a_document_that_cannot_be_taken_is_refused(
    newcomer: Caller, content: str | bytes, status: int, code: str
) -> None:
    response = await newcomer.send("PUT", document("a.md"), content=content, headers=JSON)

    assert_problem(response, status, code)
    assert (await newcomer.send("GET", "/v1/documents")).json()["documents"] == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_metadata_takes_finite_numbers_only(newcomer: Caller, number: str) -> None:
    content = f'{{"text": "a", "metadata": {{"k": {number}}}}}'

    assert_problem(await newcomer.send("PUT", document("a.md"), content=content, headers=JSON), 422, "invalid_input")


@pytest.mark.parametrize("digits", [30, 4000, 5000])
async def test_metadata_with_very_large_numbers_does_no_harm(newcomer: Caller, digits: int) -> None:
    content = f'{{"text": "a", "metadata": {{"k": {"9" * digits}}}}}'

    response = await newcomer.send("PUT", document("a.md"), content=content, headers=JSON)

    assert response.status_code in {202, 422}, response.text


@pytest.mark.parametrize("content_type", ["", "application/zip", "application/x-pdf", "image/png", "text/rtf"])
async def test_a_format_that_is_not_read_is_refused(newcomer: Caller, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}

    response = await newcomer.send("PUT", document("a.md"), content=b"# A", headers=headers)

    assert_problem(response, 415, "unsupported_format")


@pytest.mark.parametrize("external_id", ["%00", "a%00b", "%20", "%20%0A", "x" * 513])
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
async def test_an_external_id_that_no_document_has_is_refused(newcomer: Caller, method: str, external_id: str) -> None:
    request: dict[str, Any] = {"content": b"# A", "headers": MARKDOWN} if method == "PUT" else {}

    response = await newcomer.send(method, f"/v1/documents/{external_id}", **request)

    assert_problem(response, 422, "invalid_input")


@pytest.mark.parametrize("external_id", ["%FF%FE", "%ED%A0%80"])
async def test_an_external_id_that_is_not_utf_8_does_no_harm(newcomer: Caller, external_id: str) -> None:
    response = await newcomer.send("PUT", f"/v1/documents/{external_id}", content=b"# A", headers=MARKDOWN)

    assert response.status_code in {202, 422}, response.text


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=1.5", "after=" + "x" * 513])
async def test_a_page_that_cannot_be_listed_is_refused(acme: Caller, query: str) -> None:
    assert_problem(await acme.send("GET", f"/v1/documents?{query}"), 422, "invalid_request")


async def test_a_page_after_nul_is_refused(acme: Caller) -> None:
    assert_problem(await acme.send("GET", "/v1/documents?after=%00"), 422, "invalid_input")


@pytest.mark.parametrize("job", ["5", "x", "%00", "00000000-0000-0000-0000-00000000000g"])
async def test_a_job_id_that_is_none_is_refused(acme: Caller, job: str) -> None:
    assert_problem(await acme.send("GET", f"/v1/jobs/{job}"), 422, "invalid_request")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v2/search", "/v1/search/x", "/%00", "/..%2F..%2Fetc"])
async def test_an_unknown_route_is_not_found(acme: Caller, path: str) -> None:
    assert_problem(await acme.send("GET", path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/search"), ("DELETE", "/v1/query"), ("POST", "/v1/documents/a.md"), ("PATCH", "/v1/documents/a.md"),
     ("POST", "/v1/documents"), ("POST", "/healthz"), ("BREW", "/v1/search")],
)  # fmt: skip
async def test_a_wrong_method_is_refused(acme: Caller, method: str, path: str) -> None:
    assert_problem(await acme.send(method, path), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/search", "POST"), ("POST", "/v1/documents/a.md", "DELETE, GET, PUT"), ("PUT", "/v1/documents", "GET"),
     ("POST", "/v1/admin/budgets", "DELETE, GET, PUT"), ("GET", f"/v1/jobs/{UUID(int=1)}/cancel", "POST")],
)  # fmt: skip
async def test_a_wrong_method_is_told_the_right_ones(acme: Caller, method: str, path: str, allowed: str) -> None:
    refused = await acme.send(method, path)

    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    assert refused.json()["detail"] == f"this route takes {allowed}"
