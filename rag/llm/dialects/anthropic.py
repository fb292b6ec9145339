"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag.calls import ChatRequest, Usage
from rag.llm import usage
from rag.llm.dialects.asking import Asked, joined, system_text
from rag.llm.dialects.decoding import ALIVE, Decoder, Meaning, Object, inner
from rag.llm.events import Event
from rag.llm.failures import Failure
from rag.llm.usage import Counts
from rag.settings import Target

VERSION = "2023-06-01"
JSON_ONLY = "Answer with one JSON object and nothing else."  # there is no switch for it without a schema
SAFE_TO_LOSE = frozenset({"ping", "content_block_stop"})

FINISHES: Mapping[str, Meaning] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filtered",
    "pause_turn": "incomplete",
    "tool_use": "malformed",  # none was offered
}


def ask(target: Target, request: ChatRequest, key: str) -> Asked:
    """The request for a stream."""
    body: dict[str, object] = {
        "model": target.model,
        "messages": [
            {"role": message.role, "content": message.text} for message in request.messages if message.role != "system"
        ],
        "max_tokens": request.max_tokens,
        "stream": True,
    }
    system = "\n\n".join(filter(None, [system_text(request), JSON_ONLY if "json" in request.needs else ""]))
    if system:
        body["system"] = system
    if "no_temperature" not in target.quirks:
        body["temperature"] = request.temperature
    headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
    return Asked(joined(target.url, "/messages", version="/v1"), body, headers)


class AnthropicDecoder(Decoder):
    """Named events; the reason to stop is in message_delta, message_stop only closes."""

    finishes = FINISHES
    safe_to_lose = SAFE_TO_LOSE

    def _object(self, value: Object) -> Sequence[Event]:
        kind = value.get("type")
        if kind == "message_start":
            # what it says of the output is said before there is any
            taken = {**inner(inner(value.get("message")).get("usage"))}
            taken.pop("output_tokens", None)
            return self._usage(taken) or ALIVE
        if kind == "message_delta":
            self._finish(inner(value.get("delta")).get("stop_reason"))
            self.complete = self.complete or (self.finished and "usage" in value)
            return self._usage(value.get("usage")) or ALIVE
        if kind == "message_stop":
            self._stop()
        return self._content(kind, value)

    def _content(self, kind: object, value: Object) -> Sequence[Event]:
        block, delta = inner(value.get("content_block")), inner(value.get("delta"))
        if kind == "content_block_delta" and delta.get("type") == "text_delta":
            return self._text(delta.get("text"))
        if kind == "content_block_start" and block.get("type") == "text":
            return self._text(block.get("text"))
        return ALIVE

    def _stop(self) -> None:
        if not self.finished:
            raise Failure("incomplete", "message_stop without a reason")
        self.complete = True

    def _count(self, counts: Counts) -> Usage:
        return usage.anthropic(counts)
