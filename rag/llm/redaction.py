"""Personal data stays here: a model reads placeholders, and its answer gets back what they stand for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace

from rag.calls import Call, ChatRequest, Message, Reply
from rag.llm.personal import KINDS, personal
from rag.protocols import ChatModel
from rag.settings import Redacted

_NAMES = "|".join(kind.upper() for kind in KINDS)
_PLACEHOLDER = re.compile(rf"<(?:{_NAMES})_[0-9]{{1,9}}>")
_BEGUN = re.compile(r"<(?:[A-Z]{1,5}(?:_[0-9]{0,9})?)?\Z")


class RedactingChat:
    """A chat model that is told placeholders for personal data, in all messages.

    A model that reads the passages themselves, as the extractive one does, sees them as they are: it is in this
    process.
    """

    def __init__(self, chat: ChatModel, kinds: Collection[Redacted], region: str | None = None) -> None:
        """Hide *kinds* from *chat*; phone numbers without a country are those of *region*."""
        self._chat = chat
        self._kinds = kinds
        self._region = region

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        """The whole reply, with the personal data in it."""
        told, hidden = await self._redacted(request)
        reply = await self._chat.complete(told, call)
        return replace(reply, text=hidden.restored(reply.text))

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        """The pieces with the personal data in them, then the whole reply."""
        told, hidden = await self._redacted(request)
        restoring = Restoring(hidden)
        async with aclosing(self._chat.stream(told, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    if text := restoring.rest():
                        yield text
                    yield replace(piece, text=hidden.restored(piece.text))
                else:
                    text = restoring.feed(piece)
                    if text or not piece:  # an empty one says that the call is let in
                        yield text

    async def _redacted(self, request: ChatRequest) -> tuple[ChatRequest, Hidden]:
        # phone numbers take 5 ms and more for each thousand characters
        texts, hidden = await asyncio.to_thread(
            redacted, [message.text for message in request.messages], self._kinds, self._region
        )
        messages = (Message(m.role, text) for m, text in zip(request.messages, texts, strict=True))
        return replace(request, messages=tuple(messages)), hidden


class Hidden:
    """What each placeholder of a request stands for."""

    def __init__(self, values: dict[str, str]) -> None:
        """Placeholders with their *values*."""
        self._values = values

    def restored(self, text: str) -> str:
        """The text with the values in it."""
        return _PLACEHOLDER.sub(lambda found: self._values.get(found[0], found[0]), text)


class Restoring:
    """Gives back what is hidden, piece by piece: a placeholder may come in several."""

    def __init__(self, hidden: Hidden) -> None:
        """Begin a text."""
        self._hidden = hidden
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now: all but a tail that may yet become a placeholder."""
        text = self._held + piece
        begun = _BEGUN.search(text)
        cut = begun.start() if begun else len(text)
        self._held = text[cut:]
        return self._hidden.restored(text[:cut])

    def rest(self) -> str:
        """The tail, once nothing follows."""
        tail, self._held = self._held, ""
        return tail


def redacted(texts: Sequence[str], kinds: Collection[Redacted], region: str | None = None) -> tuple[list[str], Hidden]:
    """The texts with a placeholder for each value, the same for the same value, and what they stand for.

    No placeholder is one that a text has by itself.
    """
    said = "\x00".join(texts)
    names: dict[str, str] = {}
    counts = dict.fromkeys(KINDS, 0)

    def name(value: str, kind: Redacted) -> str:
        while value not in names:
            counts[kind] += 1
            candidate = f"<{kind.upper()}_{counts[kind]}>"
            if candidate not in said:
                names[value] = candidate
        return names[value]

    told = []
    for text in texts:
        parts, at = [], 0
        for found in personal(text, kinds, region):
            parts += [text[at : found.start], name(text[found.start : found.end], found.kind)]
            at = found.end
        told.append("".join((*parts, text[at:])))
    return told, Hidden({placeholder: value for value, placeholder in names.items()})
