"""What a scripted provider does with a request, step by step; fake_rendering.py puts the steps into a dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FOREVER_S = 3600.0


@dataclass(frozen=True)
class Tokens:
    """What an answer took, `input` with the cached and `output` with the reasoning tokens."""

    input: int = 12
    output: int = 5
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Step:
    """One deed; `kind` names it, the rest is what it needs."""

    kind: str
    text: str = ""
    count: int = 1
    seconds: float = 0.0
    code: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: Tokens | None = None


Script = list[Step]


def status(code: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> Step:
    """A whole response, no stream; what is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if isinstance(body, bytes) else {"Content-Type": "application/json"}
    return Step("status", code=code, body=content, headers={**kind, **(headers or {})})


def fails(kind: str, headers: Mapping[str, str] | None = None) -> Step:
    """The dialect's own response for an error of fake_errors.py, with its status."""
    return Step("fails", text=kind, headers=headers or {})


def head200(content_type: str = "", headers: Mapping[str, str] | None = None) -> Step:
    """The head of a stream: by default of the dialect's own kind. A script that says no head begins with this."""
    return Step("head", text=content_type, headers=headers or {})


def role(tokens: Tokens | None = None) -> Step:
    """The frames before the first word."""
    return Step("role", tokens=tokens)


def txt(count: int, gap_s: float = 0.0, word: str = "word") -> Step:
    """*count* pieces of text, *gap_s* before each: `word1 word2 ...`."""
    return Step("txt", text=word, count=count, seconds=gap_s)


def say(text: str) -> Step:
    """One piece of text."""
    return Step("say", text=text)


def think(count: int) -> Step:
    """*count* pieces of reasoning."""
    return Step("think", count=count)


def fin(reason: str = "stop", tokens: Tokens | None = None) -> Step:
    """The finish, in OpenAI's words (stop, length, content_filter), with what it took if *tokens* say so."""
    return Step("fin", text=reason, tokens=tokens)


def usage(tokens: Tokens) -> Step:
    """A frame of usage alone."""
    return Step("usage", tokens=tokens)


def err(kind: str) -> Step:
    """An error of fake_errors.py inside the stream, which ends with it."""
    return Step("err", text=kind)


def raw(content: bytes) -> Step:
    """These bytes in the body, whatever they are."""
    return Step("raw", body=content)


def stall(seconds: float = FOREVER_S) -> Step:
    """Silence."""
    return Step("stall", seconds=seconds)


def slowhead(seconds: float) -> Step:
    """Silence before the status line; must come first."""
    return Step("stall", seconds=seconds)


done = Step("done")  # the dialect's last marker: [DONE], message_stop
ping = Step("ping")
comment = Step("comment")
eof = Step("eof")  # a clean end; a script that says no end ends so
cut = Step("cut")  # the connection closes inside the body
rst = Step("rst")  # the connection is reset
blackhole = Step("stall", seconds=FOREVER_S)  # accepted and never answered

azure_first = raw(
    b'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":'
    b'[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}\n\n'
)
azure_filter = raw(
    b'data: {"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,'
    b'"content_filter_results":{"hate":{"filtered":false}},"content_filter_offsets":{"start_offset":0}}]}\n\n'
)


def good(text: str = "Five business days [1].", tokens: Tokens | None = None) -> Script:
    """A healthy answer, a word a piece."""
    tokens = tokens or Tokens()
    first, *rest = text.split(" ")
    words = [first, *(" " + word for word in rest)]
    return [role(tokens), *map(say, words), fin("stop", tokens), done, eof]
