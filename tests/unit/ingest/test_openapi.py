from __future__ import annotations

import json
from typing import Any

from ingest.blocks import Parsed
from ingest.parsers.json_data import parse_json, parse_yaml
from ingest.splitter import split
from tests.unit.ingest.conftest import count

SPEC: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Desk API", "version": "1.2", "description": "Books *desks*."},
    "paths": {
        "/desks/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "put": {
                "summary": "Change a desk",
                "operationId": "changeDesk",
                "tags": ["desks"],
                "requestBody": {
                    "required": True,
                    "content": {
                        media_type: {"schema": {"$ref": "#/components/schemas/Desk"}}
                        for media_type in ("application/json", "text/xml")
                    },
                },
                "responses": {
                    "200": {
                        "description": "Changed",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Desk"}}},
                    },
                    "404": {"description": "No such desk"},
                },
            },
            "delete": {"responses": {"204": {"description": "Gone"}}},
        }
    },
    "components": {
        "parameters": {
            "Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}, "description": "Number"}
        },
        "schemas": {
            "Desk": {
                "required": ["room"],
                "properties": {
                    "room": {"type": "string", "description": "Where it stands"},
                    "beside": {"$ref": "#/components/schemas/Desk"},
                    "size": {"type": "object", "properties": {"width": {"type": "integer", "minimum": 80}}},
                    "state": {"type": "string", "enum": ["free", "taken"]},
                },
            }
        },
    },
}


def parsed_spec(spec: dict[str, Any]) -> Parsed:
    return parse_json(json.dumps(spec).encode())


def test_each_operation_is_a_section_with_parameters_body_and_responses() -> None:
    parsed = parsed_spec(SPEC)

    assert parsed.text.startswith(
        """Desk API

Books desks.

PUT /desks/{id}

Change a desk

Operation: changeDesk; Tags: desks

Parameters:

Parameter: id; In: path; Type: integer; Required: yes; Description: Number

Request body (application/json, text/xml, required): Desk.

Fields:

Field: room; Type: string; Required: yes; Description: Where it stands
Field: beside; Type: Desk
Field: size; Type: object
Field: size.width; Type: integer, minimum: 80
Field: state; Type: string, one of: free, taken

Responses:

Status: 200; Description: Changed; Returns: application/json Desk
Status: 404; Description: No such desk

DELETE /desks/{id}"""
    )
    assert parsed.facets.title == "Desk API"
    assert parsed.facets.metadata == {"version": "1.2"}


def test_a_chunk_belongs_to_one_operation_and_a_plain_one_is_one_chunk() -> None:
    chunks = split(parsed_spec(SPEC), count_tokens=count)

    crumbs = [chunk.breadcrumb for chunk in chunks]
    assert crumbs.count(("Desk API", "PUT /desks/{id}")) == 1
    assert crumbs.count(("Desk API", "DELETE /desks/{id}")) == 1


def test_json_and_yaml_say_the_same() -> None:
    assert parse_yaml(json.dumps(SPEC).encode()).text == parsed_spec(SPEC).text


def test_swagger_2_bodies_and_responses_are_read() -> None:
    parsed = parsed_spec(
        {
            "swagger": "2.0",
            "paths": {
                "/p": {
                    "post": {
                        "parameters": [{"in": "body", "name": "b", "schema": {"$ref": "#/definitions/P"}}],
                        "responses": {200: {"schema": {"type": "array", "items": {"$ref": "#/definitions/P"}}}},
                    }
                }
            },
            "definitions": {"P": {"properties": {"n": {"type": "string"}}}},
        }
    )

    assert "Request body (body): P.\n\nFields:\n\nField: n; Type: string" in parsed.text
    assert "Status: 200; Returns: array of P" in parsed.text


def test_references_in_circles_and_to_nowhere_end() -> None:
    parsed = parsed_spec(
        {
            "openapi": "3.1.0",
            "paths": {"/a": {"$ref": "#/paths/~1a"}, "/b": {"get": {"parameters": [{"$ref": "other.json#/X"}]}}},
            "components": {
                "schemas": {
                    "A": {"allOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]},
                    "B": {"$ref": "#/components/schemas/C"},
                    "C": {"$ref": "#/components/schemas/B"},
                    "D": {"items": {"$ref": "#/components/schemas/D"}, "type": "array"},
                }
            },
        }
    )

    assert "GET /b" in parsed.text
    assert "array of D" in parsed.text


def test_callbacks_and_webhooks_are_sections() -> None:
    hook = {"post": {"summary": "Told"}}
    parsed = parsed_spec(
        {
            "openapi": "3.1.0",
            "paths": {"/s": {"post": {"callbacks": {"done": {"{$url}": hook}}}}},
            "webhooks": {"new": hook},
        }
    )

    headings = [parsed.of(block) for block in parsed.blocks if block.kind == "heading"]
    assert headings == ["API", "POST /s", "POST {$url} (callback done of POST /s)", "POST new (webhook)"]


def test_values_of_the_wrong_type_are_passed_over() -> None:
    parsed = parsed_spec(
        {"openapi": "3.0.0", "info": [], "paths": {"/a": {"get": {"parameters": {}, "tags": 3}}, "/b": 1}}
    )

    assert parsed.text == "API\n\nGET /a"
