"""Admission: a call that finds no room is turned away before anything is reserved, spent or sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from rag.answering.gate import Gate
from rag.calls import Call, ChatRequest, Reply
from rag.protocols import ChatModel


class AdmittedChat:
    """Another model's replies, at most as many at once as a gate lets in."""

    def __init__(self, chat: ChatModel, gate: Gate) -> None:
        """Ask *chat* while holding a slot of *gate*."""
        self._chat = chat
        self._gate = gate

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """The whole reply.

        Raises Busy or DeadlineExceeded when there is no slot.
        """
        place = self._gate.enter(call.tenant_id, batch=request.batch)
        async with self._gate.turn(place, call.deadline):
            return await self._chat.complete(request, call)

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Pieces, then the reply; a slot is held until the last of them, or until the stream is closed.

        Raises as `complete` does, before the first piece.
        """
        place = self._gate.enter(call.tenant_id, batch=request.batch)
        async with self._gate.turn(place, call.deadline), aclosing(self._chat.stream(request, call)) as pieces:
            async for piece in pieces:
                yield piece
