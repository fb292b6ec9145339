"""Ollama's own chat: a JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag.calls import ChatRequest, Usage
from rag.llm import usage
from rag.llm.dialects.asking import Asked, joined
from rag.llm.dialects.decoding import Decoder, Meaning, Object, inner
from rag.llm.events import Event
from rag.llm.usage import Counts
from rag.settings import Target

FINISHES: Mapping[str, Meaning] = {"stop": "stop", "length": "length"}


def ask(target: Target, request: ChatRequest, key: str) -> Asked:
    """The request for a stream."""
    # num_ctx: without it all but the last few thousand tokens are cut off unsaid
    options: dict[str, object] = {"num_predict": request.max_tokens, "num_ctx": target.context_tokens}
    if "no_temperature" not in target.quirks:
        options["temperature"] = request.temperature
    body: dict[str, object] = {
        "model": target.model,
        "messages": [{"role": message.role, "content": message.text} for message in request.messages],
        "stream": True,
        "options": options,
    }
    if "json" in request.needs:
        body["format"] = "json"
    return Asked(joined(target.url, "/chat", version="/api"), body, {"Authorization": f"Bearer {key}"} if key else {})


class OllamaDecoder(Decoder):
    """Lines with a piece each; the last is done and has the counts."""

    finishes = FINISHES

    def _object(self, value: Object) -> Sequence[Event]:
        events = self._text(inner(value.get("message")).get("content"))
        if value.get("done") is not True:
            return events
        self._finish(value.get("done_reason") or "stop")
        self.complete = True
        return (*events, *self._usage(value))

    def _count(self, counts: Counts) -> Usage:
        return usage.ollama(counts)
