"""What a chat model writes for the search: in time, remembered, and never the reason why a search fails."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from rag.calls import Call, ChatRequest, Reply
from rag.errors import RagError
from rag.protocols import ChatModel
from rag.telemetry import log
from rag.values import Deadline

TIMEOUT_S = 3.0  # a search takes one at most; whoever waits longer is better off with the question as it is
REMEMBERED = 1024  # texts of a kilobyte at most

Read = Callable[[str], str | None]


class Writer:
    """Asks a chat model for short texts, and remembers them."""

    def __init__(self, chat: ChatModel, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask *chat*, which has a chain for the task, for *timeout_s* at most."""
        self._chat = chat
        self._timeout_s = timeout_s
        self._known: OrderedDict[bytes, str] = OrderedDict()

    async def write(self, request: ChatRequest, call: Call, read: Read) -> str | None:
        """What *read* makes of the model's whole reply, remembered for the tenant; None when that is nothing."""
        key = _key(request, call)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        limit = min(call.deadline, Deadline.after(self._timeout_s), key=lambda moment: moment.at)
        reply = await self._asked(request, replace(call, deadline=limit))
        written = read(reply.text) if reply and reply.finish == "stop" else None
        if not written:
            return None
        self._known[key] = written
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return written

    async def _asked(self, request: ChatRequest, call: Call) -> Reply | None:
        """The reply; None when there is none in time. A search without it is worse, but a search."""
        try:
            async with asyncio.timeout(call.deadline.remaining_s()):
                return await self._chat.complete(request, call)
        except (RagError, TimeoutError) as exc:
            log.warning("nothing written", task=request.task, code=exc.code if isinstance(exc, RagError) else "timeout")
            return None


def _key(request: ChatRequest, call: Call) -> bytes:
    said = [str(call.tenant_id), request.task, *(message.text for message in request.messages)]
    return sha256(json.dumps(said).encode()).digest()
