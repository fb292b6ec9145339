from __future__ import annotations

from collections.abc import Iterator

import pytest

from rag import errors
from rag.api.problems import STATUS, problem_of, status_of
from rag.errors import RagError
from rag.telemetry import request_id

# a limit passes, or only the caller can change what is asked
LIMITS = {
    errors.Busy,
    errors.BudgetExceeded,
    errors.BalanceEmpty,
    errors.BudgetTooSmall,
    errors.UpstreamRateLimited,
    errors.UpstreamRejected,
    errors.ContextLength,
    errors.ContentFiltered,
}


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
    assert all(status_of(kind()) < 500 for kind in tree(errors.CallerError))
    assert {kind for kind in tree() if status_of(kind()) < 500} - set(tree(errors.CallerError)) == LIMITS


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


def test_a_problem_lists_what_was_tried_and_when_to_come_back() -> None:
    tried = (
        errors.Tried("first", "overloaded", 12.4),
        errors.Tried("second", "breaker_open", skipped=True, last="connect"),
    )

    body = problem_of(errors.UpstreamUnavailable(retry_after_s=1.2, tried=tried))

    assert body["tried"] == [
        {"target": "first", "reason": "overloaded", "ms": 12, "skipped": False, "last": ""},
        {"target": "second", "reason": "breaker_open", "ms": 0, "skipped": True, "last": "connect"},
    ]
    assert body["retry_after_s"] == 2
