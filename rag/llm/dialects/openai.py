"""OpenAI's chat completions, and what is compatible with them: Azure, vLLM, OpenRouter, llama.cpp, Ollama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from rag.calls import ChatRequest, Usage
from rag.llm import usage
from rag.llm.dialects.asking import Asked, joined
from rag.llm.dialects.decoding import ALIVE, Decoder, Meaning, Object, first, inner
from rag.llm.events import Event
from rag.llm.failures import Failure
from rag.llm.sse import Frame
from rag.llm.usage import Counts
from rag.settings import Quirk, Target

LAST = "[DONE]"
NEWER = "max_completion_tokens"
MAKERS = (".openai.com", ".azure.com")

FINISHES: Mapping[str, Meaning] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "content_filter": "content_filtered",
    "tool_calls": "malformed",  # none were offered
    "function_call": "malformed",
    "error": "server_error",
}


def ask(target: Target, request: ChatRequest, key: str) -> Asked:
    """The request for a stream."""
    body: dict[str, object] = {
        "model": target.model,
        "messages": [{"role": message.role, "content": message.text} for message in request.messages],
        "stream": True,
        _limit(target): request.max_tokens,
    }
    if "no_usage" not in target.quirks:
        body["stream_options"] = {"include_usage": True}
    if "no_temperature" not in target.quirks:
        body["temperature"] = request.temperature
    if "json" in request.needs:
        body["response_format"] = {"type": "json_object"}
    headers = {"api-key": key} if "api_key_header" in target.quirks else {"Authorization": f"Bearer {key}"}
    return Asked(_url(target.url), body, headers if key else {})


def _limit(target: Target) -> str:
    """The name of the limit. Its makers refuse the old one for some models; others overlook the new one, unsaid."""
    host = f".{urlsplit(target.url).hostname}"
    return NEWER if NEWER in target.quirks or host.endswith(MAKERS) else "max_tokens"


def _url(url: str) -> str:
    """Whoever names a path names the whole of it, as /v1 or a deployment of Azure's; a bare host has /v1."""
    bare = urlsplit(url).path in {"", "/"}
    return joined(url, "/chat/completions", version="/v1" if bare else "")


class OpenAIDecoder(Decoder):
    """Chunks with deltas, one with the finish, one with usage, then [DONE]."""

    finishes = FINISHES

    def __init__(self, quirks: frozenset[Quirk]) -> None:
        """Read what a service with these *quirks* sends."""
        super().__init__(quirks)
        self._refused = False

    def frame(self, frame: Frame) -> Sequence[Event]:
        """The events of one frame; the last one is no JSON."""
        return self._last() if frame.data.strip() == LAST else super().frame(frame)

    def _last(self) -> Sequence[Event]:
        self.complete = True
        if not self.finished:
            if not ("null_finish" in self._quirks and self._said):
                raise Failure("incomplete", f"{LAST} without a finish")
            self._finish("stop")
        return ALIVE

    def _object(self, value: Object) -> Sequence[Event]:
        said, choices = value.get("usage"), value.get("choices")
        if not choices:
            self.complete = self.complete or (self.finished and said is not None)
            return self._usage(said) or ALIVE
        choice = first(choices)
        if choice.get("index"):  # another answer than the first, which nobody asked for
            return ALIVE
        delta = inner(choice.get("delta"))
        # what is written instead of an answer is none, but usage comes after it
        self._refused = self._refused or bool(delta.get("refusal"))
        events = self._text(delta.get("content"))
        self._finish(choice.get("finish_reason"))
        if self.finished and self._refused:
            self._end("content_filtered", "refusal")
        return (*events, *self._usage(said)) if said else events

    def _count(self, counts: Counts) -> Usage:
        rule = usage.openai_written_outside if "writes_outside" in self._quirks else usage.openai
        return rule(counts)
