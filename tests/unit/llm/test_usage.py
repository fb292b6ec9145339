from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.calls import Usage
from rag.llm import usage
from rag.llm.usage import MOST, Rule, Tally
from tests.integration.llm.fake_rendering import anthropic_usage, gemini_usage, openai_usage
from tests.integration.llm.fake_steps import Tokens

RULES: dict[str, Rule] = {
    "openai": usage.openai,
    "openai_written_outside": usage.openai_written_outside,
    "anthropic": usage.anthropic,
    "gemini": usage.gemini,
    "ollama": usage.ollama,
}
FIELDS = (
    "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens", "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount",
    "cachedContentTokenCount", "toolUsePromptTokenCount", "prompt_eval_count", "eval_count",
)  # fmt: skip
COUNT = st.one_of(st.none(), st.integers(-10, 3000), st.sampled_from([0, 10**30, 1.5, 7.0, "9", True, float("nan")]))
DETAILS = st.fixed_dictionaries(
    {},
    optional={"cached_tokens": COUNT, "cache_write_tokens": COUNT, "reasoning_tokens": COUNT, "thinking_tokens": COUNT},
)
OBJECT = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(FIELDS, COUNT),
        **dict.fromkeys(
            ("prompt_tokens_details", "completion_tokens_details", "output_tokens_details"), st.none() | DETAILS
        ),
    },
)
ANY_RULE = st.sampled_from(sorted(RULES))


def tallied(rule: Rule, *said: Any) -> Usage:
    tally = Tally(rule)
    for one in said:
        tally.add(one)
    return tally.usage


@given(ANY_RULE, st.lists(OBJECT, max_size=4))
def test_no_class_is_negative_or_larger_than_what_contains_it(name: str, said: list[dict[str, Any]]) -> None:
    found = tallied(RULES[name], *said)

    numbers = (found.input_uncached, found.input_cache_read, found.input_cache_write, found.output, found.reasoning)
    assert all(n is None or 0 <= n <= MOST for n in numbers)
    if found.reasoning is not None and found.output is not None:
        assert found.reasoning <= found.output
    assert not found.estimated


@given(st.sampled_from(["openai", "gemini"]), st.lists(OBJECT, max_size=4))
def test_the_classes_of_input_add_up_to_the_prompt(name: str, said: list[dict[str, Any]]) -> None:
    prompt = {"openai": "prompt_tokens", "gemini": "promptTokenCount"}[name]
    counts = [_whole_numbers_only(one) for one in said]
    prompts = [one[prompt] for one in counts if prompt in one]
    tools = [one["toolUsePromptTokenCount"] for one in counts if "toolUsePromptTokenCount" in one]

    found = tallied(RULES[name], *counts)

    if prompts and not found.clamped:
        assert found.input == prompts[-1] + (tools[-1] if tools and name == "gemini" else 0)


@given(ANY_RULE, st.lists(OBJECT, min_size=1, max_size=4))
def test_bug_18_a_frame_that_comes_twice_changes_nothing(name: str, said: list[dict[str, Any]]) -> None:
    once = tallied(RULES[name], *said)

    assert tallied(RULES[name], *(one for each in said for one in (each, each))) == once


@given(ANY_RULE, OBJECT, st.sets(st.sampled_from(FIELDS)))
def test_a_frame_that_leaves_fields_out_leaves_them_as_they_are(
    name: str, said: dict[str, Any], left_out: set[str]
) -> None:
    later = {field: value for field, value in said.items() if field not in left_out}

    assert tallied(RULES[name], said, later) == tallied(RULES[name], said)
    assert tallied(RULES[name], said, dict.fromkeys(said)) == tallied(RULES[name], said)


@given(ANY_RULE, st.lists(OBJECT, max_size=3))
def test_a_frame_that_says_zero_sets_zero(name: str, said: list[dict[str, Any]]) -> None:
    found = tallied(RULES[name], *said, dict.fromkeys(FIELDS, 0))

    assert (found.output, found.input_uncached) == (0, 0)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (usage.openai, openai_usage(Tokens(1000, 50, cached=900, reasoning=20))),
        (usage.anthropic, anthropic_usage(Tokens(1000, 50, cached=900, reasoning=20))),
        (usage.gemini, gemini_usage(Tokens(1000, 50, cached=900, reasoning=20))),
    ],
)
def test_bug_19_cached_tokens_are_counted_once(rule: Rule, said: dict[str, Any]) -> None:
    found = tallied(rule, said)

    assert (found.input_uncached, found.input_cache_read, found.input_cache_write) == (100, 900, 0)
    assert (found.input, found.output, found.clamped) == (1000, 50, False)
    # 100 x 3 + 900 x 0.3 + 50 x 15 dollars a million
    assert found.input_uncached * 3 + found.input_cache_read * 0.3 + found.output * 15 == 1320


@pytest.mark.parametrize(
    ("rule", "zeros"),
    [
        (usage.openai, {"prompt_tokens": 0, "completion_tokens": 0}),
        (usage.anthropic, {"input_tokens": 0, "output_tokens": 0}),
        (usage.gemini, {"promptTokenCount": 0, "candidatesTokenCount": 0}),
        (usage.ollama, {"prompt_eval_count": 0, "eval_count": 0}),
    ],
)
def test_bug_21_zero_is_a_number_and_nothing_said_is_none(rule: Rule, zeros: dict[str, int]) -> None:
    assert (tallied(rule, zeros).input, tallied(rule, zeros).output) == (0, 0)
    for nothing in ({}, None, dict.fromkeys(zeros), "usage", []):
        assert tallied(rule, nothing) == Usage()


@pytest.mark.parametrize(
    ("rule", "said", "expected"),
    [
        (usage.openai, {"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 0, 0, 5)),
        (usage.openai, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 3}},
         Usage(1, 6, 3)),
        (usage.openai, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}},
         Usage(0, 10, 0, clamped=True)),
        (usage.openai, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 8}},
         Usage(0, 6, 4, clamped=True)),
        (usage.openai_written_outside,
         {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 8}}, Usage(4, 6, 8)),
        (usage.openai, {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}},
         Usage(output=5, reasoning=5, clamped=True)),
        (usage.openai, {"prompt_tokens": -4}, Usage(0, 0, 0, clamped=True)),
        (usage.openai, {"prompt_tokens": 10**30}, Usage(MOST, 0, 0, clamped=True)),
        (usage.anthropic, {"input_tokens": 7, "cache_creation_input_tokens": 5, "output_tokens": 2,
         "output_tokens_details": {"thinking_tokens": 1}}, Usage(7, 0, 5, 2, 1)),
        (usage.gemini, {"promptTokenCount": 10, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 3,
         "thoughtsTokenCount": 2}, Usage(14, 0, 0, 5, 2)),
        (usage.gemini, {"promptTokenCount": 10, "totalTokenCount": 10}, Usage(10, 0, 0, 0)),
        (usage.gemini, {"promptTokenCount": 10}, Usage(10, 0, 0)),
        (usage.gemini, {"candidatesTokenCount": 3}, Usage(output=3)),
    ],
)  # fmt: skip
def test_each_provider_counts_in_its_own_way(rule: Rule, said: dict[str, Any], expected: Usage) -> None:
    assert tallied(rule, said) == expected


def _whole_numbers_only(said: dict[str, Any]) -> dict[str, Any]:
    """Without what is no count: true, text, fractions."""
    return {field: value for field, value in said.items() if type(value) in {int, dict}}
