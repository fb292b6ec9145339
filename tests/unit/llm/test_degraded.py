"""Why a lesser model answered, and what became of the others."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

import pytest

from rag.calls import Call, Degraded, Message
from rag.errors import BudgetExceeded, NotAllowed, Tried
from rag.llm.failures import Failure, Reason
from rag.llm.reasons import SAID, Skip
from rag.values import Deadline, TenantId
from tests.unit.llm.scripted import SECRET, Scripted, Stage, asked

TENANT = TenantId(UUID(int=1))
UPSTREAM = "sk-live-4711 is not a key of acme's"
LONG = Message("user", "x" * 4000)


def skipped(target: str, reason: str) -> Tried:
    return Tried(target, reason, skipped=True)


async def degraded(stage: Stage, **request: Any) -> Degraded:
    reply = await stage.complete(**request)
    assert reply.degraded is not None
    return reply.degraded


def test_there_are_words_for_every_reason() -> None:
    assert SAID.keys() == {*get_args(Reason), *get_args(Skip)}


async def test_what_each_target_did_is_told_in_our_words_and_none_of_the_providers() -> None:
    stage = Stage(
        Scripted("p1", (Failure("config", UPSTREAM, status=401),)), Scripted("p2", (Failure("empty"),)), extractive=True
    )

    why = await degraded(stage)

    assert why.reason == "config"
    assert why.detail == "p1: it refuses our key, model or region; `rag doctor` tells which"
    assert [(tried.target, tried.reason, tried.skipped) for tried in why.tried[:2]] == [
        ("p1", "config", False),
        ("p2", "empty", False),
    ]
    assert why.retry_after_s is not None
    assert 290 < why.retry_after_s <= 300
    assert not any(text in repr(why) for text in (UPSTREAM, SECRET))


async def test_targets_that_are_left_alone_are_named_with_what_keeps_them_out() -> None:
    failing, poor = Scripted("p1", (Failure("overloaded"),)), Scripted("p2", (Failure("quota", status=429),))
    stage = Stage(failing, poor, extractive=True)
    for _ in range(5):
        await stage.complete()

    why = await degraded(stage)

    alone = Tried("p1", "breaker_open", skipped=True, last="overloaded")
    assert (why.reason, why.tried) == ("breaker_open", (alone, skipped("p2", "quota")))
    assert (
        why.detail == "p1: it failed too often and is left alone for some seconds; its last failure: it is overloaded"
    )
    assert stage.chat.lanes.means()["p1"].endswith("then it is tried again; its last failure: it is overloaded")
    assert "last failure" not in stage.chat.lanes.means()["p2"]
    assert (len(failing.hits), len(poor.hits)) == (5, 1)


@pytest.mark.parametrize(
    ("target", "request_", "reason"),
    [
        ({}, {"tags": frozenset({"personal"})}, "data_class"),
        ({"context_tokens": 1000}, {"messages": (LONG,)}, "context_length"),
        ({"lane": "local", "overflow_tokens": 100}, {"messages": (LONG,)}, "overflow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_target_that_is_not_fit_for_the_request_is_the_reason_for_a_lesser_answer(
    target: dict[str, Any], request_: dict[str, Any], reason: str
) -> None:
    lesser = Scripted("p2", tier=2, allows={"personal"})

    why = await degraded(Stage(Scripted("p1", **target), lesser), **request_)

    assert (why.reason, why.tried, why.retry_after_s) == (reason, (skipped("p1", reason),), None)


async def test_targets_beyond_the_bounds_of_one_request_are_named() -> None:
    down = (Failure("malformed"),)
    stage = Stage(*(Scripted(f"p{n}", down) for n in range(1, 5)), extractive=True)

    why = await degraded(stage)

    assert [tried.target for tried in why.tried] == ["p1", "p2", "p3", "p4"]
    assert why.tried[3] == skipped("p4", "attempts")


async def test_an_error_names_those_that_may_not_read_the_sources() -> None:
    error = await Stage(Scripted("p1"), Scripted("p2")).refused(NotAllowed, tags=frozenset({"personal"}))

    assert error.tried == (skipped("p1", "data_class"), skipped("p2", "data_class"))


async def test_a_call_that_may_not_spend_is_answered_by_the_sentences_and_asks_no_target() -> None:
    p1 = Scripted("p1")
    stage = Stage(p1, extractive=True)
    call = Call(TENANT, Deadline.after(5))
    call.unpaid = BudgetExceeded("0 of 10 tokens are left", retry_after_s=60)

    reply = await stage.chat.complete(asked(), call)

    assert (reply.target, p1.hits) == ("extractive", [])
    assert reply.degraded == Degraded("budget", "0 of 10 tokens are left", (skipped("p1", "budget"),), 60)


async def test_a_budget_is_no_reason_where_no_target_could_have_been_asked() -> None:
    call = Call(TENANT, Deadline.after(5))
    call.unpaid = BudgetExceeded(retry_after_s=60)

    reply = await Stage(Scripted("p1"), extractive=True).chat.complete(asked(tags=frozenset({"personal"})), call)

    assert reply.degraded is not None
    assert (reply.degraded.reason, reply.degraded.retry_after_s) == ("data_class", None)


async def test_what_a_target_may_not_read_it_may_not_read_later_either() -> None:
    stage = Stage(Scripted("p1", (Failure("quota", status=429),)), extractive=True)
    left_alone = await degraded(stage)

    why = await degraded(stage, tags=frozenset({"personal"}))

    assert (left_alone.reason, left_alone.retry_after_s is None) == ("quota", False)
    assert (why.reason, why.retry_after_s) == ("data_class", None)


async def test_a_call_that_may_not_spend_is_refused_where_no_sentences_end_the_chain() -> None:
    p1 = Scripted("p1")
    call = Call(TENANT, Deadline.after(5))
    call.unpaid = BudgetExceeded()

    with pytest.raises(BudgetExceeded):
        await Stage(p1).chat.complete(asked(), call)

    assert p1.hits == []
