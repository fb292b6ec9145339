"""Which settings are allowed and have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from rag.answering.cautions import cautions, unpriced, unreadable
from rag.settings import Settings

PRICE = [{"input": 1, "output": 2}]
SMALL: dict[str, Any] = {"name": "small", "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "qwen3"}
CHAINS = {"answer": ["small", "extractive"]}


def said(**settings: Any) -> list[str]:
    return cautions(Settings(**{"chat_targets": [SMALL], "chat_chains": CHAINS, **settings}))


def test_settings_that_all_have_an_effect_need_no_caution() -> None:
    assert said() == []
    assert cautions(Settings()) == []


def test_a_target_that_no_chain_names_is_told() -> None:
    spare = {**SMALL, "name": "spare"}

    assert said(chat_targets=[SMALL, spare]) == [
        "RAG_CHAT_TARGETS: spare is in no chain of RAG_CHAT_CHAINS, so nothing asks it"
    ]
    assert said(chat_targets=[SMALL, spare], chat_chains={**CHAINS, "rewrite": ["spare"]}) == []


@pytest.mark.parametrize("name", ["small", "qwen3", "127.0.0.1/qwen3"])
def test_a_price_by_any_name_of_a_target_has_an_effect(name: str) -> None:
    assert said(prices={name: PRICE}) == []


def test_a_price_of_nothing_that_is_there_is_told_with_the_names_that_are() -> None:
    assert said(prices={"qwen": PRICE, "qwen3": PRICE}) == [
        "RAG_PRICES: no chat target or model is named qwen, only small, 127.0.0.1/qwen3, qwen3"
    ]


def test_the_models_that_answer_and_have_no_price_are_told_with_what_follows() -> None:
    known = {"name": "known", "dialect": "openai", "url": "https://api.openai.com/v1", "model": "gpt-4o-mini"}
    other = {**SMALL, "name": "other", "model": "writer"}
    settings = Settings(
        chat_targets=[SMALL, known, other], chat_chains={"answer": ["known", "small"], "rewrite": ["other"]}
    )
    priced = settings.model_copy(update={"prices": Settings(prices={"qwen3": PRICE}).prices})

    assert unpriced(settings) == [
        "RAG_PRICES: nobody knows what 127.0.0.1/qwen3 costs, so whoever has a budget of money is refused every answer"
        " (price_unknown); add a price, which may be 0"
    ]
    assert unpriced(priced) == unpriced(Settings()) == []


@pytest.mark.parametrize(
    ("allows", "chain", "classes"),
    [
        ((), ["small"], ["health", "personal"]),
        (("health",), ["small"], ["personal"]),
        (("health", "personal"), ["small"], []),
        ((), ["small", "extractive"], []),
    ],
)
def test_a_class_that_nothing_which_answers_may_read_is_told(
    allows: tuple[str, ...], chain: list[str], classes: list[str]
) -> None:
    trusted = {**SMALL, "name": "trusted", "allows": ("health", "personal")}  # of another chain
    settings = Settings(
        chat_targets=[{**SMALL, "allows": allows}, trusted],
        chat_chains={"answer": chain, "rewrite": ["trusted"]},
        data_classes="personal,health",
    )

    assert unreadable(settings) == [
        f"RAG_DATA_CLASSES: no target of the chain for answer allows {name}, so questions whose sources have that tag"
        " are refused (not_allowed); let one of small read it, or end the chain with extractive"
        for name in classes
    ]
