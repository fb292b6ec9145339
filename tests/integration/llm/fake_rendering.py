"""Steps as the bytes of four dialects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.integration.llm.fake_errors import ERRORS
from tests.integration.llm.fake_steps import Step, Tokens

STARTED = 1_790_000_000


class Rendering:
    """One response in one dialect; its state is that of the response."""

    content_type = "text/event-stream"
    comment_bytes = b": PROCESSING\n\n"

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def failed(self, kind: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a response that is an error; Gemini has one that is a stream."""
        code, body = ERRORS[self.dialect][kind]
        if code == 200:
            return code, self.content_type, _data(body)
        return code, "application/json", json.dumps(body).encode()

    def render(self, step: Step) -> Iterator[tuple[float, bytes]]:
        """Seconds to wait and bytes to send, one pair for each frame."""
        if step.kind == "txt":
            for n in range(1, step.count + 1):
                yield step.seconds, self.say(f"{step.text}{n} ")
        elif step.kind == "think":
            yield from ((0.0, self.think("hm ")) for _ in range(step.count))
        else:
            yield 0.0, self._one(step)

    def _one(self, step: Step) -> bytes:
        if step.kind == "raw":
            return step.body
        if step.kind == "comment":
            return self.comment_bytes
        if step.kind in {"say", "err"}:
            return getattr(self, step.kind)(step.text)
        if step.kind == "fin":
            return self.fin(step.text, step.tokens)
        if step.kind in {"role", "usage"}:
            return getattr(self, step.kind)(step.tokens or Tokens())
        return getattr(self, step.kind)()


class OpenAI(Rendering):
    def _chunk(self, choices: list[Any], **more: Any) -> bytes:
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": STARTED, "model": "fake"}
        return _data({**chunk, "choices": choices, "obfuscation": "Zq", **more})

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], usage=None)

    def role(self, tokens: Tokens) -> bytes:
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def say(self, text: str) -> bytes:
        return self._delta({"content": text})

    def think(self, text: str) -> bytes:
        return self._delta({"reasoning_content": text})

    def fin(self, reason: str, tokens: Tokens | None) -> bytes:
        return self._delta({}, reason) + (self.usage(tokens) if tokens else b"")

    def usage(self, tokens: Tokens) -> bytes:
        return self._chunk([], usage=openai_usage(tokens))

    def done(self) -> bytes:
        return b"data: [DONE]\n\n"

    def ping(self) -> bytes:
        return b"event: ping\n\n"

    def err(self, kind: str) -> bytes:
        return _data(ERRORS["openai"][kind][1])


class Anthropic(Rendering):
    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self._index = -1
        self._open = ""

    def role(self, tokens: Tokens) -> bytes:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": []}
        usage = {**anthropic_usage(tokens), "output_tokens": 1}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
        return _named({"type": "message_start", "message": message}) + self.ping()

    def say(self, text: str) -> bytes:
        return self._block("text", {"text": ""}) + self._delta({"type": "text_delta", "text": text})

    def think(self, text: str) -> bytes:
        opening = self._block("thinking", {"thinking": "", "signature": ""})
        return opening + self._delta({"type": "thinking_delta", "thinking": text})

    def fin(self, reason: str, tokens: Tokens | None) -> bytes:
        said = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}.get(reason, reason)
        delta = {"stop_reason": said, "stop_sequence": None}
        taken = anthropic_usage(tokens) if tokens else {"output_tokens": 1}
        return self._close() + _named({"type": "message_delta", "delta": delta, "usage": taken})

    def usage(self, tokens: Tokens) -> bytes:
        return _named({"type": "message_delta", "delta": {}, "usage": anthropic_usage(tokens)})

    def done(self) -> bytes:
        return _named({"type": "message_stop"})

    def ping(self) -> bytes:
        return _named({"type": "ping"})

    def err(self, kind: str) -> bytes:
        return _named(ERRORS["anthropic"][kind][1])

    def _block(self, kind: str, content: dict[str, Any]) -> bytes:
        if self._open == kind:
            return b""
        closing = self._close()
        self._index += 1
        self._open = kind
        block = {"type": kind, **content}
        return closing + _named({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return _named({"type": "content_block_stop", "index": self._index})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _named({"type": "content_block_delta", "index": self._index, "delta": delta})


class Gemini(Rendering):
    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self._tokens = Tokens()
        self._said = 0

    def role(self, tokens: Tokens) -> bytes:
        """Nothing: the first frame has the first words."""
        self._tokens = tokens
        return b""

    def say(self, text: str) -> bytes:
        self._said += 1
        return self._chunk([{"text": text}], so_far=self._said)

    def think(self, text: str) -> bytes:
        return self._chunk([{"text": text, "thought": True}], so_far=self._said)

    def fin(self, reason: str, tokens: Tokens | None) -> bytes:
        said = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(reason, reason)
        candidate = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": said, "index": 0}
        taken = {"usageMetadata": gemini_usage(tokens)} if tokens else {}
        return _data({"candidates": [candidate], **taken, "modelVersion": "fake", "responseId": "r1"}, end=b"\r\n\r\n")

    def usage(self, tokens: Tokens) -> bytes:
        return _data({"usageMetadata": gemini_usage(tokens)}, end=b"\r\n\r\n")

    def done(self) -> bytes:
        return b""

    def ping(self) -> bytes:
        return b": ping\n\n"

    def err(self, kind: str) -> bytes:
        """On several lines and outside `data:`, as seen in the wild."""
        if kind == "policy":
            return _data(ERRORS["gemini"][kind][1])
        return json.dumps(ERRORS["gemini"][kind][1], indent=2).encode() + b"\n"

    def _chunk(self, parts: list[Any], *, so_far: int) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        seen = {
            "promptTokenCount": self._tokens.input,
            "candidatesTokenCount": so_far,
            "totalTokenCount": self._tokens.input + so_far,
        }
        return _data({"candidates": [candidate], "usageMetadata": seen, "modelVersion": "fake"}, end=b"\r\n\r\n")


class Ollama(Rendering):
    content_type = "application/x-ndjson"
    comment_bytes = b"\n"

    def role(self, tokens: Tokens) -> bytes:
        return self.say("")

    def say(self, text: str) -> bytes:
        return self._line({"content": text})

    def think(self, text: str) -> bytes:
        return self._line({"content": "", "thinking": text})

    def fin(self, reason: str, tokens: Tokens | None) -> bytes:
        counts = {"prompt_eval_count": tokens.input, "eval_count": tokens.output} if tokens else {}
        return self._line({"content": ""}, done=True, done_reason=reason, total_duration=1, **counts)

    def usage(self, tokens: Tokens) -> bytes:
        return self._line({"content": ""}, prompt_eval_count=tokens.input, eval_count=tokens.output)

    def done(self) -> bytes:
        return b""

    def ping(self) -> bytes:
        return b"\n"

    def err(self, kind: str) -> bytes:
        return json.dumps(ERRORS["ollama"][kind][1]).encode() + b"\n"

    def _line(self, message: dict[str, Any], **more: Any) -> bytes:
        line = {"model": "fake", "created_at": "2026-11-30T12:00:00Z", "message": {"role": "assistant", **message}}
        return json.dumps({**line, "done": False, **more}).encode() + b"\n"


RENDERINGS: dict[str, type[Rendering]] = {
    "openai": OpenAI, "anthropic": Anthropic, "gemini": Gemini, "ollama": Ollama,
}  # fmt: skip


def openai_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def anthropic_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens.output,
    }


def gemini_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cached,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.input + tokens.output,
    }


def _data(body: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + end


def _named(body: dict[str, Any]) -> bytes:
    """With the trailing blanks that Anthropic's lines are seen to have."""
    return f"event: {body['type']}\n".encode() + _data(body, end=b"   \n\n")
