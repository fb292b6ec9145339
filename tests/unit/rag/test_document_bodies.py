from __future__ import annotations

import base64
import json

import pytest
from fastapi import FastAPI

from rag.api.documents import DocumentBody, _upload, router
from rag.errors import InvalidInput, UnsupportedFormat
from rag.formats import CONTENT_TYPES

JSON = "application/json"


def test_raw_bytes_are_taken_as_they_are() -> None:
    upload = _upload("a.md", "Text/Markdown; charset=utf-8", b"# \xff")

    assert (upload.external_id, upload.content_type, upload.facets, upload.payload) == (
        "a.md", "text/markdown", {}, b"# \xff",
    )  # fmt: skip


def test_json_gives_text_type_and_facets() -> None:
    upload = _upload("a", JSON, b'{"text": "\xc3\xa4", "content_type": "text/plain", "title": "T", "tags": []}')

    assert (upload.content_type, upload.facets, upload.payload) == (
        "text/plain", {"title": "T", "tags": []}, "ä".encode(),
    )  # fmt: skip


def test_base64_is_decoded() -> None:
    content = base64.b64encode(b"# \0\xff").decode()

    assert _upload("a", JSON, f'{{"content_base64": "{content}"}}'.encode()).payload == b"# \0\xff"


def test_moments_are_normalised() -> None:
    upload = _upload("a", JSON, b'{"text": "x", "valid_from": "2025-01-01", "valid_to": "2026-01-01T00:00:00+01:00"}')

    assert upload.facets == {"valid_from": "2025-01-01T00:00:00+00:00", "valid_to": "2026-01-01T00:00:00+01:00"}


@pytest.mark.parametrize("content", ["***", "YQ", "YQ==YQ==", "Y Q="])
def test_what_is_not_base64_is_refused(content: str) -> None:
    with pytest.raises(InvalidInput, match="content_base64: not base64"):
        _upload("a", JSON, f'{{"content_base64": "{content}"}}'.encode())


def test_letters_beyond_ascii_are_not_base64() -> None:
    with pytest.raises(InvalidInput, match="content_base64: not base64"):
        _upload("a", JSON, '{"content_base64": "Ä"}'.encode())


def test_a_fault_names_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"^metadata\.k: it must be .*; acl: it must be a list$"):
        _upload("a", JSON, b'{"text": "x", "acl": "hr", "metadata": {"k": null}}')


def test_what_no_database_takes_is_named_too() -> None:
    with pytest.raises(InvalidInput, match=r"^metadata: it has a NUL or a lone surrogate"):
        _upload("a", JSON, rb'{"text": "x", "tags": ["hr"], "metadata": {"k": "a\u0000b"}}')


def test_an_unread_type_is_named_but_not_at_any_length() -> None:
    with pytest.raises(UnsupportedFormat, match="content type application/zip is not read; what is: text/markdown, "):
        _upload("a", "application/zip", b"PK")
    with pytest.raises(UnsupportedFormat) as caught:
        _upload("a", "x" * 5000, b"x")
    assert "x" * 61 not in caught.value.detail


@pytest.mark.parametrize("kind", ["application/json", "text/json", "text/yaml", "application/x-yaml"])
def test_json_and_yaml_may_be_documents_themselves(kind: str) -> None:
    upload = _upload("a", JSON, json.dumps({"text": '{"port": 5432}', "content_type": kind}).encode())

    assert (upload.content_type, upload.payload) == (kind, b'{"port": 5432}')


def test_a_document_that_would_never_be_valid_is_refused() -> None:
    body = {"text": "a", "valid_from": "2026-01-01T12:00:00+02:00", "valid_to": "2026-01-01T10:00:00Z"}

    with pytest.raises(InvalidInput, match="valid_to: it must be after valid_from"):
        _upload("a", JSON, json.dumps(body).encode())


def test_openapi_says_what_an_upload_may_be() -> None:
    app = FastAPI()
    app.include_router(router)

    body = app.openapi()["paths"]["/v1/documents/{external_id}"]["put"]["requestBody"]

    assert body["required"]
    assert body["content"].keys() == {*CONTENT_TYPES, JSON}
    assert body["content"][JSON]["schema"]["properties"].keys() == DocumentBody.model_fields.keys()
    assert body["content"]["text/csv"]["schema"] == {"type": "string", "format": "binary"}
