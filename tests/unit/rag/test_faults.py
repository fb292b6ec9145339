"""What is wrong with a request, in the words of its own fields."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from rag.api.admin import BudgetBody
from rag.api.completion_bodies import CompletionBody
from rag.api.documents import DocumentBody
from rag.api.faults import told
from rag.api.schemas import QueryBody

USER = {"role": "user", "content": "How long?"}


def faults(kind: type[BaseModel], body: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)
    return told([{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()], body)


def said_of(content: Any) -> str:
    return faults(CompletionBody, {"model": "rag", "messages": [USER, {"role": "user", "content": content}]})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "query: it is missing"),
        ([], "the body must be a JSON object"),
        ({"query": 5}, "query: it must be a text"),
        ({"query": "x", "limit": 5}, "limit: it is no field of this request; leave it out"),
        ({"query": "x", "top_k": "6"}, "top_k: it must be a whole number"),
        ({"query": "x", "top_k": 101}, "top_k: it must be 100 or less"),
        ({"query": "x", "top_k": 0}, "top_k: it must be 1 or more"),
        ({"query": "x", "stream": 1}, "stream: it must be true or false"),
        ({"query": "x", "index": "old"}, "index: it must be 'current' or 'next'"),
        ({"query": "x", "filters": []}, "filters: it must be an object"),
        ({"top_k": 0}, "query: it is missing; top_k: it must be 1 or more"),
    ],
    ids=str,
)
def test_each_fault_is_a_sentence_that_begins_with_its_field(body: Any, expected: str) -> None:
    assert faults(QueryBody, body) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (5, "messages[1].content: it must be a text, or a list"),
        ({"type": "text"}, "messages[1].content: it must be a text, or a list"),
        ([{"type": "text"}], "messages[1].content[0].text: it is missing"),
        ([{"type": "audio", "text": "x"}], "messages[1].content[0].type: it must be 'text'"),
    ],
    ids=str,
)
def test_of_a_field_that_takes_several_kinds_only_what_was_meant_is_told(content: Any, expected: str) -> None:
    assert said_of(content) == expected


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (CompletionBody, {"model": "rag", "messages": []}, "messages: it must not be empty"),
        (CompletionBody, {"model": "rag", "messages": [{"role": "assistant", "content": "x"}]},
         "messages: it must end with a message of the user: it is the question"),
        (CompletionBody, {"model": "rag", "messages": [USER], "n": 2},
         "n: it is not supported: answers are cited text from the documents; leave it out"),
        (DocumentBody, {"text": "x", "metadata": {"k": {}}},
         "metadata.k: it must be a text, or a whole number, or a number, or true or false"),
        (DocumentBody, {"text": "x", "tags": ["a", ""]}, "tags[1]: it must not be empty"),
        (BudgetBody, {"unit": "tokens", "period": "day", "amount": "1.1234567"},
         "amount: it must have at most 6 decimal places"),
        (BudgetBody, {"unit": "tokens", "period": "day", "amount": 1.5}, "amount: it must be a whole number of tokens"),
        (DocumentBody, {"text": "x", "lang": "german"},
         "lang: it must be of the form ^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_rules_of_each_body_are_told_in_our_words(kind: type[BaseModel], body: Any, expected: str) -> None:
    assert faults(kind, body) == expected


def test_json_that_cannot_be_read_is_told_with_its_place_and_without_its_text() -> None:
    error = {"type": "json_invalid", "loc": ("body", 13), "msg": "JSON decode error"}

    told_of = [told([error | {"ctx": {"error": said}}], "a secret") for said in ("Extra data", "Invalid \\escape at")]

    assert told_of == [f"the body is no JSON: {said}, at character 13" for said in ("Extra data", "Invalid \\escape")]


def test_no_more_than_five_faults_are_told_and_no_value() -> None:
    body = {"query": "x", **{f"field{n}": "a secret" for n in range(9)}}

    said = faults(QueryBody, body)

    assert said.count("leave it out") == 5
    assert "secret" not in said


@pytest.mark.parametrize(
    ("place", "expected"),
    [(("query", "limit"), "limit: it"), (("path", "job_id"), "job_id: it"), (("header", "x-key"), "X-Key: it")],
)
def test_parameters_have_the_names_that_the_caller_wrote(place: tuple[str, str], expected: str) -> None:
    assert told([{"type": "int_parsing", "loc": place, "msg": ""}], None) == f"{expected} must be a whole number"
