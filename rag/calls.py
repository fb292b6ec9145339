"""A call of a chat model: what is asked, what came of it, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid4

from rag.errors import RagError, Tried
from rag.values import Citation, Deadline, Passage, Retrieval, TenantId

Task = Literal["answer", "rewrite", "hyde", "judge"]  # the last may have a chain; nothing asks it yet
Need = Literal["json"]
Finish = Literal["stop", "length"]
AnswerStatus = Literal["answered", "no_evidence", "degraded"]
CacheState = Literal["miss", "hit", "off"]
Outcome = Literal["answered", "partial", "failed", "cancelled"]
Unit = Literal["tokens", "money"]  # of budgets
Period = Literal["hour", "day", "month", "prepaid"]
TURN_TOKENS = 8  # of a message's frame in the template of a model


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a chat model is asked, whoever serves it.

    A model that generates reads `messages`; `question` and `passages` are what they were built from, for one that
    chooses sentences. `needs` is what the model must be able to do, `tags` the classes of personal data inside.
    """

    task: Task
    question: str
    passages: tuple[Passage, ...]
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    needs: frozenset[Need] = frozenset()
    tags: frozenset[str] = frozenset()
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt by class, each counted once; None where nobody knows.

    `output` contains `reasoning`; the input is the sum of the three input classes. `estimated` says that the numbers
    are ours and not the provider's, `clamped` that the provider's contradicted one another.
    """

    input_uncached: int | None = None
    input_cache_read: int | None = None
    input_cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    estimated: bool = False
    clamped: bool = False

    @property
    def input(self) -> int | None:
        """All tokens read."""
        known = [n for n in (self.input_uncached, self.input_cache_read, self.input_cache_write) if n is not None]
        return sum(known) if known else None

    @property
    def is_nothing(self) -> bool:
        """Whether it is known that nothing was read or written."""
        return self.input_uncached == 0 == self.output and not self.input_cache_read and not self.input_cache_write


NO_TOKENS = Usage(input_uncached=0, input_cache_read=0, input_cache_write=0, output=0, reasoning=0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to one target. `reason` is the class of the failure, in the terms of rag/llm/failures.py.

    `usage` has the input and the output, estimated where the provider did not say them: it is what is paid for.
    """

    number: int
    target: str
    model: str
    outcome: Outcome
    usage: Usage
    reason: str = ""
    first_content_ms: float | None = None
    total_ms: float = 0.0


@dataclass(slots=True)
class Call:
    """One logical call: whose it is, how long it may take, and the attempts made so far, however it ends.

    `unpaid` is the budget's refusal: only what costs nothing may answer then.
    """

    tenant_id: TenantId
    deadline: Deadline
    feature: str = "query"
    id: UUID = field(default_factory=uuid4)
    attempts: list[Attempt] = field(default_factory=list)
    unpaid: RagError | None = None


@dataclass(frozen=True, slots=True)
class Degraded:
    """Why a lesser model answered: `reason`, in the terms of `tried`, is what kept the one away that is asked first.

    `retry_after_s` is when that may be over, where it is known; `resets_at` when a budget that is used up is renewed.
    """

    reason: str
    detail: str
    tried: tuple[Tried, ...] = ()
    retry_after_s: float | None = None
    resets_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole answer; its text marks sources as [n]. Empty text means the sources do not answer.

    A model that knows the places it took its claims from gives them as (n, start, end) in the passages' texts.
    `degraded` says why, when a lesser model answered than the one asked first.
    """

    text: str
    target: str
    model: str
    usage: Usage = Usage()
    finish: Finish = "stop"
    degraded: Degraded | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A sentence at [start, end) of an answer that cites no source, or none that supports it."""

    start: int
    end: int
    reason: Literal["uncited", "unsupported"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A question's outcome: the cited text, or the honest absence of one.

    `sources` are the passages that the model read, `unsupported` the sentences that they do not bear out,
    `data_classes` those of all that it read.
    """

    status: AnswerStatus
    text: str
    citations: tuple[Citation, ...]
    target: str
    model: str
    usage: Usage
    retrieval: Retrieval
    timings_ms: dict[str, float]
    finish: Finish = "stop"
    cache: CacheState = "off"
    unsupported: tuple[Unsupported, ...] = ()
    sources: tuple[Passage, ...] = ()
    prompt_version: str = ""
    degraded: Degraded | None = None
    data_classes: frozenset[str] = frozenset()


def tokens_of(text: str) -> int:
    """No fewer tokens than a model would count: half the characters, but a CJK character is more than one."""
    return -(-max(3 * len(text), 2 * len(text.encode(errors="surrogatepass"))) // 6)


def prompt_tokens(messages: Iterable[Message]) -> int:
    """No fewer tokens than a model would read of the messages: by this prompts are packed, sent and reserved for."""
    return sum(tokens_of(message.text) + TURN_TOKENS for message in messages)
