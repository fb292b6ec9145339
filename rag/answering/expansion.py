"""Questions that are searched for in the words of documents too: a passage that a chat model imagines as an answer."""

from __future__ import annotations

from dataclasses import replace

from rag.answering.followup import names_its_own, unquoted
from rag.answering.prompting import quoted
from rag.answering.writing import TIMEOUT_S, Writer
from rag.calls import Call, ChatRequest, Message
from rag.protocols import ChatModel
from rag.values import Deadline, Question, TenantId

MOST_ASKED = 400  # characters of a question; a longer one says in its own words what it wants
MOST_TOKENS, MOST_CHARS = 192, 800  # of what is imagined: with the question no more than the embedder reads
FEATURE = "expansion"  # in the ledger, whichever route asks

_RULES = """\
You help a search engine. Write a short passage, two to four sentences, as it may stand in a document that answers the \
user's question: in the words of such a document rather than the user's.
Keep the question's language. Use no names, numbers or dates that the question does not have.
Reply with the passage and nothing else."""


class Expander:
    """Asks a chat model for the passage that would answer a question."""

    def __init__(self, chat: ChatModel, *, always: bool, timeout_s: float = TIMEOUT_S) -> None:
        """Ask *chat*, which has a chain for the task, for every question, or for those that want it."""
        self._writer = Writer(chat, timeout_s=timeout_s)
        self._always = always
        self._timeout_s = timeout_s

    async def __call__(self, tenant_id: TenantId, question: Question) -> Question:
        """The question with the passage to search for beside it; without when it needs none or there is none."""
        wanted = self._always or question.recall == "high"
        if not wanted:
            return question
        if not expandable(question.text):
            return replace(question, expansion_state="skipped")
        call = Call(tenant_id, Deadline.after(self._timeout_s), FEATURE)
        written = await self._writer.write(imagining(question), call, _passage_in)
        return replace(question, expansion=written or "", expansion_state="written" if written else "failed")


def expandable(question: str) -> bool:
    """Whether other words may find more: not for what names an identifier or quotes, nor for what says much."""
    return len(question) <= MOST_ASKED and not names_its_own(question)


def imagining(question: Question) -> ChatRequest:
    """The request for a passage that would answer *question*; who may not read that is not asked."""
    return ChatRequest(
        task="hyde",
        question=question.text,
        passages=(),
        messages=(Message("system", _RULES), Message("user", f"Question: {quoted(question.text)}")),
        max_tokens=MOST_TOKENS,
        tags=question.tags,
    )


def _passage_in(reply: str) -> str | None:
    written = unquoted(reply)
    return written if len(written) <= MOST_CHARS else None
