"""OpenAI's chat completions as they come in and go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

from rag.answering.prompting import Talk
from rag.api.degraded import degraded
from rag.api.schemas import (
    ANSWER_TOKENS,
    MAX_TOKENS,
    MAX_TOP_K,
    SearchBody,
    Strict,
    citations,
    sources,
    unsupported,
)
from rag.calls import Answer, Message
from rag.errors import TooLarge
from rag.settings import Settings
from rag.values import Principal, Question, Recall

MODEL = "rag"
MAX_TALK_CHARS = 1_000_000  # a quarter of the largest windows there are
TURN_CHARS = 16  # a message's frame, so that empty ones are not free
NO_EVIDENCE = "The documents do not answer this question."

# What changes no answer may be sent; what would change it is refused rather than left out in silence.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "stop": ([],),
    "top_p": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "store": (False,),
}


def _neutral(value: object, info: ValidationInfo) -> object:
    if value is None or value in _NEUTRAL[info.field_name or ""]:
        return value
    raise ValueError("is not supported: answers are cited text from the documents; leave it out")


Neutral = Annotated[object, AfterValidator(_neutral)]


class TextPart(BaseModel):
    """A part of a message."""

    type: Literal["text"]
    text: str


class TurnBody(BaseModel):
    """A message of a conversation. Fields of earlier answers may come back with it; most say nothing new.

    `data_classes` are those of what an answer was made from. One without them may hold a text of any class.
    """

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    data_classes: list[str] | None = None

    @property
    def text(self) -> str:
        """What it says."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)

    def tags(self, known: frozenset[str]) -> frozenset[str]:
        """Which of the *known* data classes its text may be of; what the user says has none."""
        if self.role != "assistant" or not self.text.strip():
            return frozenset()
        return known if self.data_classes is None else known.intersection(self.data_classes)


class StreamOptions(Strict):
    """What a stream ends with."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CompletionBody(Strict):
    """A conversation whose last message is the question; `filters` and the four fields below it are as in a search."""

    model: str
    messages: Annotated[list[TurnBody], Field(min_length=1)]
    stream: Annotated[bool, Field(strict=True)] | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None

    filters: dict[str, object] | None = None
    as_of: str | None = None
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, strict=True)] = 6
    rerank: Annotated[bool, Field(strict=True)] = True
    recall: Recall = "normal"

    user: object = None
    metadata: object = None
    safety_identifier: object = None
    prompt_cache_key: object = None

    n: Neutral = None
    logprobs: Neutral = None
    top_logprobs: Neutral = None
    tools: Neutral = None
    tool_choice: Neutral = None
    functions: Neutral = None
    parallel_tool_calls: Neutral = None
    response_format: Neutral = None
    modalities: Neutral = None
    stop: Neutral = None
    top_p: Neutral = None
    presence_penalty: Neutral = None
    frequency_penalty: Neutral = None
    logit_bias: Neutral = None
    store: Neutral = None

    @field_validator("messages")
    @classmethod
    def _ends_with_a_question(cls, messages: list[TurnBody]) -> list[TurnBody]:
        if messages[-1].role != "user":
            raise ValueError("must end with a message of the user: it is the question")
        return messages

    @property
    def limit(self) -> int:
        """The most tokens of the answer."""
        return self.max_completion_tokens or self.max_tokens or ANSWER_TOKENS

    @property
    def wants_usage(self) -> bool:
        """Whether a stream tells the tokens at its end."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def question(self, who: Principal, settings: Settings) -> Question:
        """The last message, as *who* asks it.

        Raises InvalidInput for text that cannot be searched, TooLarge for that or a conversation that is too long.
        """
        chars = sum(len(turn.text) + TURN_CHARS for turn in self.messages)
        if chars > MAX_TALK_CHARS:
            raise TooLarge(f"messages: {chars} characters with their frames, the limit is {MAX_TALK_CHARS}")
        body = SearchBody(
            query=self.messages[-1].text,
            top_k=self.top_k,
            filters=self.filters,
            as_of=self.as_of,
            rerank=self.rerank,
            recall=self.recall,
        )
        return body.question(who, settings, field=f"messages[{len(self.messages) - 1}].content")

    def talk(self, data_classes: frozenset[str]) -> Talk:
        """What stands around the question, where there are documents of *data_classes*."""
        rules = [turn.text for turn in self.messages if turn.role in {"system", "developer"}]
        return Talk(
            history=tuple(
                Message(turn.role, turn.text) for turn in self.messages[:-1] if turn.role in ("user", "assistant")
            ),
            instructions="\n\n".join(rules),
            tags=frozenset().union(*(turn.tags(data_classes) for turn in self.messages)),
            temperature=self.temperature or 0.0,
            feature="completions",
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer in OpenAI's words, whole or in chunks, all under one *name* and moment."""

    name: str
    created: int

    def whole(self, answer: Answer) -> dict[str, object]:
        """The answer; its message carries citations and sources beside the text."""
        listed = [source.model_dump() for source in sources(answer.sources)]
        text = {"role": "assistant", "content": answer_text(answer), "refusal": None}
        choice = {"message": {**text, **grounds(answer), "sources": listed}, "finish_reason": answer.finish}
        return self._body("chat.completion", choice) | {"usage": usage(answer)}

    def chunk(self, delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        """A piece of the answer, the last if it has a *finish*."""
        return self._body("chat.completion.chunk", {"delta": delta, "finish_reason": finish})

    def used(self, answer: Answer) -> dict[str, object]:
        """What a stream that is to tell its usage ends with."""
        return self._body("chat.completion.chunk") | {"usage": usage(answer)}

    def _body(self, kind: str, *choices: Mapping[str, object]) -> dict[str, object]:
        numbered = [{"index": n, "logprobs": None, **choice} for n, choice in enumerate(choices)]
        return {"id": self.name, "object": kind, "created": self.created, "model": MODEL, "choices": numbered}


def answer_text(answer: Answer) -> str:
    """The answer, or that there is none: quotes in a chat are seldom meant to narrow, so it says where they did."""
    if answer.status != "no_evidence":
        return answer.text
    missing = " or ".join(f'"{phrase}"' for phrase in answer.retrieval.missing_phrases)
    return f"{NO_EVIDENCE} No passage has {missing} to the letter." if missing else NO_EVIDENCE


def grounds(answer: Answer) -> dict[str, object]:
    """What the answer rests on, as /v1/query says it."""
    return {
        "citations": [citation.model_dump() for citation in citations(answer)],
        "unsupported": [doubt.model_dump() for doubt in unsupported(answer)],
        "status": answer.status,
        "degraded": why.model_dump(mode="json") if (why := degraded(answer)) else None,
        "data_classes": sorted(answer.data_classes),
        "missing_phrases": list(answer.retrieval.missing_phrases),
        "hints": list(answer.retrieval.hints),
    }


def usage(answer: Answer) -> dict[str, object]:
    """The tokens in OpenAI's words; 0 where nobody knows."""
    used = answer.usage
    prompt, written = used.input or 0, used.output or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": used.input_cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning or 0},
    }
