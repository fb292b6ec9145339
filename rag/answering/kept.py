"""A kept answer: written down as JSON, read back, and carried over to the sources of a similar question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from rag.calls import NO_TOKENS, Reply
from rag.marks import MARK, shown
from rag.values import Passage


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A reply, and which passage each of its marks means: the number by the hash of what the passage is."""

    reply: Reply
    sources: dict[str, int]

    @classmethod
    def of(cls, reply: Reply, passages: Sequence[Passage]) -> KeptReply:
        """What is kept of a reply made from *passages*: its text as it is shown, where every mark is one source."""
        whole = replace(reply, text=shown(reply.text, [passage.n for passage in passages]))
        marked = _marks(whole)
        return cls(whole, {identity(passage): passage.n for passage in passages if passage.n in marked})

    @classmethod
    def read(cls, body: str) -> KeptReply:
        """What `as_json` wrote; the reply cost nothing this time."""
        fields: dict[str, Any] = json.loads(body)
        spans = fields["spans"]
        reply = Reply(
            text=fields["text"],
            target=fields["target"],
            model=fields["model"],
            usage=NO_TOKENS,
            spans=None if spans is None else tuple((n, start, end) for n, start, end in spans),
        )
        return cls(reply, fields["sources"])

    def as_json(self) -> str:
        """The answer as it is stored."""
        reply = self.reply
        fields = {"text": reply.text, "target": reply.target, "model": reply.model, "spans": reply.spans}
        return json.dumps({**fields, "sources": self.sources}, sort_keys=True)

    def carried_over(self, passages: Sequence[Passage]) -> Reply | None:
        """The reply with its marks on *passages*; None when it cites nothing, or something that is not among them."""
        here = {identity(passage): passage.n for passage in passages}
        numbers = {n: here[source] for source, n in self.sources.items() if source in here}
        marked = _marks(self.reply)
        if not marked or not marked <= numbers.keys():
            return None
        text = MARK.sub(lambda mark: f"[{numbers[int(mark[1])]}]", self.reply.text)
        spans = self.reply.spans and tuple((numbers[n], start, end) for n, start, end in self.reply.spans)
        return replace(self.reply, text=text, spans=spans)


def identity(passage: Passage) -> str:
    """The hash of a passage: which document, where in it, and what it says."""
    return sha256(f"{passage.chunk.document_id} {passage.start} {passage.text}".encode()).hexdigest()


def _marks(reply: Reply) -> set[int]:
    return {int(n) for n in MARK.findall(reply.text)} | {n for n, _, _ in reply.spans or ()}
