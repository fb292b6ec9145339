"""Gemini's streamGenerateContent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from rag.calls import ChatRequest, Usage
from rag.llm import usage
from rag.llm.dialects.asking import Asked, joined, system_text
from rag.llm.dialects.decoding import ALIVE, Decoder, Meaning, Object, first, inner
from rag.llm.events import Event
from rag.llm.usage import Counts
from rag.settings import Target

ROLES = {"user": "user", "assistant": "model"}

FINISHES: Mapping[str, Meaning] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filtered",
    "RECITATION": "content_filtered",
    "BLOCKLIST": "content_filtered",
    "PROHIBITED_CONTENT": "content_filtered",
    "SPII": "content_filtered",
    "IMAGE_SAFETY": "content_filtered",
    "IMAGE_PROHIBITED_CONTENT": "content_filtered",
    "IMAGE_RECITATION": "content_filtered",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
    "LANGUAGE": "incomplete",
    "OTHER": "incomplete",
}


def ask(target: Target, request: ChatRequest, key: str) -> Asked:
    """The request for a stream."""
    generation: dict[str, object] = {"maxOutputTokens": request.max_tokens}
    if "no_temperature" not in target.quirks:
        generation["temperature"] = request.temperature
    if "json" in request.needs:
        generation["responseMimeType"] = "application/json"
    body: dict[str, object] = {
        "contents": [
            {"role": ROLES[message.role], "parts": [{"text": message.text}]}
            for message in request.messages
            if message.role != "system"
        ],
        "generationConfig": generation,
    }
    if system := system_text(request):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    model = target.model if "/" in target.model else f"models/{target.model}"
    url = joined(target.url, f"/{quote(model)}:streamGenerateContent", version="/v1beta", query="alt=sse")
    return Asked(url, body, {"x-goog-api-key": key} if key else {})


class GeminiDecoder(Decoder):
    """Whole responses, each with the next piece; the body's end is the end, after a reason to finish."""

    finishes = FINISHES

    def _object(self, value: Object) -> Sequence[Event]:
        blocked = inner(value.get("promptFeedback")).get("blockReason")
        if blocked:
            self._end("content_filtered", str(blocked))
        candidate = first(value.get("candidates"))
        parts = inner(candidate.get("content")).get("parts")
        events = [event for part in (parts if isinstance(parts, list) else []) for event in self._part(inner(part))]
        self._finish(candidate.get("finishReason"))
        said = value.get("usageMetadata")
        self.complete = self.complete or (self.finished and said is not None)
        return [*events, *self._usage(said)] or ALIVE

    def _part(self, part: Object) -> Sequence[Event]:
        return ALIVE if part.get("thought") else self._text(part.get("text"))

    def _count(self, counts: Counts) -> Usage:
        return usage.gemini(counts)
