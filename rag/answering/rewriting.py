"""Follow-ups written anew by a chat model, as questions that can be searched for without the turns before them."""

from __future__ import annotations

from functools import partial

from rag.analysis import identifiers
from rag.answering.followup import joined, names_its_own, unquoted
from rag.answering.prompting import Talk, in_turns, quoted
from rag.answering.writing import TIMEOUT_S, Writer
from rag.calls import Call, ChatRequest, Message
from rag.protocols import ChatModel
from rag.values import Deadline, TenantId

MOST_TOKENS, MOST_CHARS = 128, 400  # of a question; what is longer is an answer, or needs no rewriting
TURNS, TURN_CHARS = 6, 600  # of the conversation that the model reads

_RULES = """\
You write questions for a search engine. You are given a conversation and the user's last message.
Write that last message as one question that can be understood without the conversation: put in the names, things, \
places and dates of the conversation that it refers to or leaves out.
Keep its language, and names and numbers as they stand. Add nothing that the conversation does not say, and do not \
answer the question. If it can be understood alone, repeat it as it is.
Reply with the question and nothing else."""


class Rewriter:
    """Asks a chat model for questions that stand alone."""

    def __init__(self, chat: ChatModel, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask *chat*, which has a chain for the task."""
        self._writer = Writer(chat, timeout_s=timeout_s)

    async def standalone(self, tenant_id: TenantId, question: str, talk: Talk, *, deadline: Deadline) -> str:
        """The question in words that need no earlier turn; as it is when it names what it wants, by the rule else."""
        begun = any(turn.role == "user" for turn in talk.history)
        if not begun or len(question) > MOST_CHARS or names_its_own(question):
            return question
        request = rewriting(question, talk)
        read = partial(_question_in, request)
        written = await self._writer.write(request, Call(tenant_id, deadline, talk.feature), read)
        return written or joined(question, talk.history)


def rewriting(question: str, talk: Talk) -> ChatRequest:
    """The request for *question* in words that need no earlier turn of *talk*; who may not read those is not asked."""
    turns = in_turns(talk.history)[-TURNS:]
    told = [f"{turn.role.capitalize()}: {' '.join(turn.text[-TURN_CHARS:].split())}" for turn in turns]
    asked = "\n".join(["Conversation:", *told, "", f"The user's last message: {quoted(question)}"])
    return ChatRequest(
        task="rewrite",
        question=question,
        passages=(),
        messages=(Message("system", _RULES), Message("user", asked)),
        max_tokens=MOST_TOKENS,
        tags=talk.tags,
    )


def _question_in(request: ChatRequest, reply: str) -> str | None:
    """What the model wrote, if that can be the question: short, and with no identifier of its own."""
    written = unquoted(reply)
    told = request.messages[-1].text.casefold()
    if not 0 < len(written) <= MOST_CHARS:
        return None
    return written if all(name in told for name in identifiers(written)) else None
