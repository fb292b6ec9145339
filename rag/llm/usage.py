"""Tokens as each provider counts them, turned into one record in which each is counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rag.calls import Usage

MOST = 1_000_000_000  # tokens of one call: more is no count, and would not fit the ledger

Counts = Mapping[str, int]
Rule = Callable[[Counts], Usage]


class Tally:
    """What a provider has said so far. Its numbers are running totals: the last of each field counts, 0 included."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._counts: dict[str, int] = {}

    def add(self, said: object) -> bool:
        """Take in a usage object, whatever it holds; true when that changed anything."""
        before = dict(self._counts)
        self._counts.update(_numbers(said))
        return self._counts != before

    @property
    def usage(self) -> Usage:
        """The record of what is known."""
        return self._rule(self._counts)

    @property
    def known(self) -> bool:
        """Whether anything was said."""
        return bool(self._counts)


def openai(counts: Counts) -> Usage:
    """Cached and written tokens are inside the prompt, reasoning is inside the completion."""
    return _with_all_inside(counts, prompt=counts.get("prompt_tokens"))


def openai_written_outside(counts: Counts) -> Usage:
    """As `openai`, of a service that counts the tokens written to its cache beside the prompt."""
    prompt, written = counts.get("prompt_tokens"), counts.get(OPENAI_WRITTEN, 0)
    return _with_all_inside(counts, prompt=None if prompt is None else prompt + written)


def anthropic(counts: Counts) -> Usage:
    """The three kinds of input stand beside one another, thinking is inside the output."""
    uncached = counts.get("input_tokens")
    absent = None if uncached is None else 0  # what is not mentioned beside the rest was not used
    return _record(
        (uncached, counts.get("cache_read_input_tokens", absent), counts.get("cache_creation_input_tokens", absent)),
        output=counts.get("output_tokens"),
        reasoning=counts.get("output_tokens_details.thinking_tokens"),
    )


def gemini(counts: Counts) -> Usage:
    """Cached tokens are inside the prompt, those of tools and thoughts are not inside prompt and candidates."""
    prompt, tools = counts.get("promptTokenCount"), counts.get("toolUsePromptTokenCount", 0)
    words, thoughts = counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount")
    output = None if words is None and thoughts is None else (words or 0) + (thoughts or 0)
    if output is None and prompt is not None and "totalTokenCount" in counts:
        output = counts["totalTokenCount"] - prompt - tools  # a number that is 0 is left out
    if prompt is None:
        return _record((None, None, None), output=output, reasoning=thoughts)
    return _inside(prompt + tools, counts.get("cachedContentTokenCount", 0), 0, output=output, reasoning=thoughts)


def ollama(counts: Counts) -> Usage:
    """It charges nothing and has no cache to account for."""
    prompt = counts.get("prompt_eval_count")
    absent = None if prompt is None else 0
    return _record((prompt, absent, absent), output=counts.get("eval_count"), reasoning=None)


OPENAI_WRITTEN = "prompt_tokens_details.cache_write_tokens"


def _with_all_inside(counts: Counts, *, prompt: int | None) -> Usage:
    output = counts.get("completion_tokens")
    reasoning = counts.get("completion_tokens_details.reasoning_tokens")
    read, written = counts.get("prompt_tokens_details.cached_tokens"), counts.get(OPENAI_WRITTEN)
    if prompt is None:
        return _record((None, read, written), output=output, reasoning=reasoning)
    return _inside(prompt, read or 0, written or 0, output=output, reasoning=reasoning)


def _inside(prompt: int, read: int, written: int, *, output: int | None, reasoning: int | None) -> Usage:
    """The record of a prompt that contains what was read from and written to the cache."""
    read_of_it = min(read, max(prompt, 0))
    written_of_it = min(written, max(prompt, 0) - max(read_of_it, 0))
    uncached = prompt - max(read_of_it, 0) - max(written_of_it, 0)
    contradicted = (read_of_it, written_of_it) != (read, written)
    return _record((uncached, read_of_it, written_of_it), output=output, reasoning=reasoning, contradicted=contradicted)


def _record(
    inputs: tuple[int | None, int | None, int | None],
    *,
    output: int | None,
    reasoning: int | None,
    contradicted: bool = False,
) -> Usage:
    """The record, with possible numbers and no more reasoning than output; it says if that took force."""
    said = (*inputs, output, reasoning)
    uncached, read, written, output, reasoning = (None if n is None else min(max(n, 0), MOST) for n in said)
    if reasoning is not None and output is not None:
        reasoning = min(reasoning, output)
    kept = (uncached, read, written, output, reasoning)
    return Usage(*kept, clamped=contradicted or kept != said)


def _numbers(said: object, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers of an object and of those inside it, by their dotted names; null is nothing said."""
    if not isinstance(said, dict):
        return
    for name, value in said.items():
        if isinstance(value, dict) and not prefix:
            yield from _numbers(value, f"{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
            yield f"{prefix}{name}", int(value)
