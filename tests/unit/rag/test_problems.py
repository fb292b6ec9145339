from __future__ import annotations

from collections.abc import Iterator

import pytest

from rag import errors
from rag.api.problems import STATUS, problem_of, status_of
from rag.errors import RagError
from rag.telemetry import request_id


def tree(kind: type[RagError] = RagError) -> Iterator[type[RagError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("kind", list(tree()))
def test_every_error_has_a_status_and_a_sentence(kind: type[RagError]) -> None:
    assert kind in STATUS
    assert kind().detail.endswith(".")
    assert kind.__name__ in (errors.__doc__ or "")


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in tree()]

    assert len(codes) == len(set(codes))


def test_faults_of_the_caller_are_4xx_and_others_5xx() -> None:
    assert all((status_of(kind()) < 500) == issubclass(kind, errors.CallerError) for kind in tree())


def test_a_problem_says_what_happened_in_which_request() -> None:
    token = request_id.set("r-1")

    body = problem_of(errors.NotFound("there is no job 5"))

    request_id.reset(token)
    assert body == {
        "type": "about:blank", "status": 404, "code": "not_found", "detail": "there is no job 5", "request_id": "r-1",
    }  # fmt: skip


def test_inner_faults_say_nothing_of_themselves() -> None:
    body = problem_of(errors.StoreError('relation "chunks" does not exist'))

    assert body["code"] == "store_error"
    assert body["detail"] == "the service failed; see its log"
