"""Which targets a request may go to."""

from __future__ import annotations

from typing import Any

import pytest

from rag.calls import Message, tokens_of
from rag.errors import ContextLength, NotAllowed, SetupError
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from tests.unit.llm.scripted import Scripted, asked

JSON = frozenset({"json"})
PERSONAL = frozenset({"personal"})


def hop(name: str, **target: Any) -> Hop:
    return Hop(Scripted(name, **target))  # type: ignore[arg-type]


def names(lanes: Lanes, **request: Any) -> list[str]:
    return [hop.target.name for hop in lanes.route(asked(**request)).hops]


def lanes(*hops: Hop, extractive: bool = False) -> Lanes:
    return Lanes({"answer": Chain(hops, extractive)})


def test_each_task_has_its_chain() -> None:
    both = Lanes({"answer": Chain((hop("p1"), hop("p2"))), "rewrite": Chain((hop("p3"),))})

    assert names(both) == ["p1", "p2"]
    assert names(both, task="rewrite") == ["p3"]
    with pytest.raises(SetupError, match="no chain for the task rewrite"):
        names(lanes(hop("p1")), task="rewrite")


def test_tagged_text_goes_only_where_every_tag_is_allowed() -> None:
    chain = lanes(hop("us"), hop("eu", allows={"personal", "health"}), hop("local", allows={"personal"}))

    assert names(chain, tags=PERSONAL) == ["eu", "local"]
    assert names(chain, tags=PERSONAL | {"health"}) == ["eu"]
    with pytest.raises(NotAllowed):
        names(chain, tags=frozenset({"secret"}))


def test_tagged_text_that_may_go_nowhere_is_answered_by_the_sentences_of_the_sources() -> None:
    route = lanes(hop("us"), extractive=True).route(asked(tags=PERSONAL))

    assert (route.hops, route.extractive, route.degraded(None)) == ((), True, True)


def test_what_a_target_cannot_do_is_not_asked_of_it() -> None:
    chain = lanes(hop("plain", can=set()), hop("able"), extractive=True)

    assert names(chain, needs=JSON) == ["able"]
    with pytest.raises(SetupError, match="can do json"):
        names(lanes(hop("plain", can=set(), allows={"personal"})), needs=JSON, tags=PERSONAL)
    assert not chain.route(asked(needs=JSON)).extractive  # sentences are no JSON


def test_a_prompt_goes_only_where_it_fits_with_its_answer() -> None:
    chain = lanes(hop("small", context_tokens=1000), hop("large", context_tokens=8000))
    user = Message("user", "x" * 1864)  # 940 tokens at the most, with its frame

    assert names(chain, messages=(user,), max_tokens=60) == ["small", "large"]
    assert names(chain, messages=(user,), max_tokens=61) == ["large"]
    with pytest.raises(ContextLength):
        names(chain, messages=(user,), max_tokens=8000)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 2), ("abcde", 3), ("漢字", 2), ("📦", 2), ("\ud800", 1)]
)
def test_tokens_are_half_the_characters_or_a_third_of_the_bytes(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


def test_a_busy_local_model_is_passed_by_and_comes_last() -> None:
    local, api = hop("local", lane="local", overflow_depth=2), hop("api", tier=2)
    chain = lanes(local, api)
    local.under_way = 1
    idle = names(chain)
    local.under_way = 2

    assert (idle, names(chain)) == (["local", "api"], ["api", "local"])


def test_a_long_prompt_passes_by_the_local_model() -> None:
    chain = lanes(hop("local", lane="local", overflow_tokens=100), hop("api"))

    assert names(chain, messages=(Message("user", "x" * 184),)) == ["local", "api"]
    assert names(chain, messages=(Message("user", "x" * 185),)) == ["api", "local"]


def test_batch_work_waits_for_its_lane() -> None:
    local, api = hop("local", lane="local", overflow_depth=1), hop("api")
    local.under_way = 5

    assert names(lanes(local, api), batch=True) == ["local", "api"]


def test_a_busy_api_is_not_relieved_by_the_local_lane() -> None:
    api, local = hop("api", overflow_depth=1), hop("local", lane="local")
    api.under_way = 50

    assert names(lanes(api, local)) == ["api", "local"]


def test_an_answer_is_degraded_below_the_tier_that_the_chain_begins_with() -> None:
    first, same, lesser = hop("p1", tier=2), hop("p2", tier=2), hop("p3", tier=3)
    route = lanes(first, same, lesser, extractive=True).route(asked())

    assert [route.degraded(one) for one in (first, same, lesser, None)] == [False, False, True, True]
