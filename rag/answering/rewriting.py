"""Follow-ups written anew by a chat model, as questions that can be searched for without the turns before them."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from hashlib import sha256

from rag.analysis import identifiers
from rag.answering.followup import joined, names_its_own, unquoted
from rag.answering.prompting import Talk, in_turns, quoted
from rag.calls import Call, ChatRequest, Message, Reply
from rag.errors import RagError
from rag.protocols import ChatModel
from rag.telemetry import log
from rag.values import Deadline, TenantId

PROMPT_VERSION = "rewrite-1"  # change it with any word below, or with how the message is put together
TIMEOUT_S = 3.0  # a search takes one at most; whoever waits longer is better off with the question as it is
MOST_TOKENS, MOST_CHARS = 128, 400  # of a question; what is longer is an answer, or needs no rewriting
TURNS, TURN_CHARS = 6, 600  # of the conversation that the model reads
REMEMBERED = 1024  # questions of half a kilobyte

_RULES = """\
You write questions for a search engine. You are given a conversation and the user's last message.
Write that last message as one question that can be understood without the conversation: put in the names, things, \
places and dates of the conversation that it refers to or leaves out.
Keep its language, and names and numbers as they stand. Add nothing that the conversation does not say, and do not \
answer the question. If it can be understood alone, repeat it as it is.
Reply with the question and nothing else."""


class Rewriter:
    """Asks a chat model for questions that stand alone, and remembers them."""

    def __init__(self, chat: ChatModel, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask *chat*, which has a chain for the task."""
        self._chat = chat
        self._timeout_s = timeout_s
        self._known: OrderedDict[bytes, str] = OrderedDict()

    async def standalone(self, tenant_id: TenantId, question: str, talk: Talk, *, deadline: Deadline) -> str:
        """The question in words that need no earlier turn; as it is when it names what it wants, by the rule else."""
        begun = any(turn.role == "user" for turn in talk.history)
        if not begun or len(question) > MOST_CHARS or names_its_own(question):
            return question
        request = rewriting(question, talk)
        key = _key(tenant_id, request)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        reply = await self._asked(request, Call(tenant_id, self._limit(deadline), talk.feature))
        written = _question_in(reply, request) if reply else None
        if written is None:
            return joined(question, talk.history)
        self._known[key] = written
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return written

    def _limit(self, deadline: Deadline) -> Deadline:
        return min(deadline, Deadline.after(self._timeout_s), key=lambda moment: moment.at)

    async def _asked(self, request: ChatRequest, call: Call) -> Reply | None:
        """The reply; None when there is none in time. An answer without it is worse, but an answer."""
        try:
            async with asyncio.timeout(call.deadline.remaining_s()):
                return await self._chat.complete(request, call)
        except (RagError, TimeoutError) as exc:
            log.warning("question not rewritten", code=exc.code if isinstance(exc, RagError) else "timeout")
            return None


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


def _question_in(reply: Reply, request: ChatRequest) -> str | None:
    """What the model wrote, if that can be the question: whole, short, and with no identifier of its own."""
    written = unquoted(reply.text)
    told = request.messages[-1].text.casefold()
    if reply.finish != "stop" or not 0 < len(written) <= MOST_CHARS:
        return None
    return written if all(name in told for name in identifiers(written)) else None


def _key(tenant_id: TenantId, request: ChatRequest) -> bytes:
    said = [PROMPT_VERSION, str(tenant_id), request.messages[-1].text]
    return sha256(json.dumps(said).encode()).digest()
