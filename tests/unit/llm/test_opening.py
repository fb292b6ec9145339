"""Which settings of chat models are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from rag.errors import SetupError
from rag.llm.opening import check_chat, open_chat
from rag.settings import Settings
from rag.telemetry import Metrics
from tests.fakes import FakeReranker


def target(name: str, **facts: Any) -> dict[str, Any]:
    return {"name": name, "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "m", **facts}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"chat_targets": [target("a"), target("a")]}, "RAG_CHAT_TARGETS: two are named a"),
        ({"chat_targets": [target("extractive")]}, "extractive is the name of the model without a network"),
        ({"chat_targets": [target("a", allows=["health"])]}, "a allows health, which RAG_DATA_CLASSES does not name"),
        ({"chat_keys": {"b": "sk-secret"}}, "RAG_CHAT_KEYS: no target is named b"),
        ({"chat_chains": {"answer": ["b"]}}, "RAG_CHAT_CHAINS: answer names b, which is no target"),
        ({"chat_chains": {"answer": []}}, "RAG_CHAT_CHAINS: answer names no target"),
        ({"chat_chains": {"rewrite": ["a", "a"]}}, "RAG_CHAT_CHAINS: rewrite names a twice"),
        ({"chat_chains": {"answer": ["extractive", "a"]}}, "answer: extractive always answers"),
        ({"chat_chains": {"rewrite": ["a", "extractive"]}}, "rewrite: extractive chooses sentences"),
    ],
)
def test_what_does_not_fit_together_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError) as refused:
        check_chat(Settings(**{"chat_targets": [target("a")], **settings}))

    assert said in refused.value.detail
    assert "sk-secret" not in refused.value.detail


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = Settings(chat_keys={"b": SecretStr("k")}, chat_chains={"answer": ("c",), "rewrite": ()})

    with pytest.raises(SetupError) as refused:
        check_chat(wrong)

    assert refused.value.detail.count(";") == 2


async def test_every_target_has_a_state_and_the_extractive_model_answers_when_no_chain_says_otherwise() -> None:
    metrics = Metrics()
    settings = Settings(chat_targets=[target("a")], chat_chains={"rewrite": ["a"]})
    async with open_chat(settings, FakeReranker(), metrics) as chat:
        states, can_answer = chat.lanes.states(), chat.lanes.can_answer()
        closed = metrics.registry.get_sample_value("rag_chat_target_state", {"target": "a"})

    assert (states, can_answer, closed) == ({"a": "closed"}, True, 0)
