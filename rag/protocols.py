"""Every seam of the service on one screen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag.calls import Call, ChatRequest, Reply
from rag.values import Deadline, LegResult, Question, TenantId, Unscored

Vectors = NDArray[np.float32]
Ordinals = NDArray[np.int32]
Score = float | Unscored  # a logit, or why there is none
Expanding = Callable[[TenantId, Question], Awaitable[Question]]  # the question, with more to search for; never fails


class Embedder(Protocol):
    """Text to unit vectors. `langs` are the languages it was trained on, None when it takes any."""

    name: str
    langs: frozenset[str] | None
    dims: int
    max_tokens: int

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens the model would read of each text, its own marks included, before any cut."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One L2-normalised row for each text, shape (len(texts), dims)."""

    async def embed_query(self, text: str) -> Vectors:
        """The question's vector, shape (dims,)."""


class Reranker(Protocol):
    """A question and texts to relevance logits; `langs` as of an embedder."""

    name: str
    langs: frozenset[str] | None

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """One logit for each text, in the order given, or why it has none."""


class ChatModel(Protocol):
    """A question with sources to an answer that marks them.

    Both methods append to `call.attempts` whatever they tried, also when they fail or are cancelled.
    """

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """The whole reply."""

    def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Pieces of text as they come, then the whole Reply as the last item; to close it is to cancel the call.

        An empty first piece says that the call is let in: who is refused hears of it before.
        """


class Leg(Protocol):
    """One way to find candidates."""

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        """The best *depth* chunks in the question's scope, and *within* these: always min(depth, matching)."""
