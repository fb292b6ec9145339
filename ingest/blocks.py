"""What a parser hands to the splitter: a document's stored text, and what each span of it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingest.typography import plain_letters
from rag.values import Facets

BlockKind = Literal["heading", "paragraph", "list", "table", "code", "question"]


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the document's text that is one thing; `question` is a paragraph that asks what follows it answers."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    caption: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as it is stored: `text` is canonical, and every block is a span of it."""

    text: str
    blocks: tuple[Block, ...]
    facets: Facets
    warnings: tuple[str, ...] = ()

    def of(self, block: Block) -> str:
        """The block's own text."""
        return self.text[block.start : block.end]

    def first_heading(self) -> str:
        """The first heading of level 1, else the first heading, else an empty text."""
        headings = [block for block in self.blocks if block.kind == "heading"]
        top = next((block for block in headings if block.level == 1), None)
        first = top or next(iter(headings), None)
        return self.of(first) if first else ""


def deflated(blocks: Sequence[Block]) -> bytes:
    """Blocks as they are stored beside the text: JSON, deflated."""
    fields = [[b.kind, b.start, b.end, b.level, b.caption, b.rows] for b in blocks]
    return zlib.compress(json.dumps(fields).encode())


def inflated(stored: bytes) -> tuple[Block, ...]:
    """The blocks that were stored."""
    fields = json.loads(zlib.decompress(stored))
    return tuple(
        Block(kind, start, end, level, caption, tuple(map(tuple, rows)))
        for kind, start, end, level, caption, rows in fields
    )


@dataclass(slots=True)
class TextBuilder:
    """Blocks put one under the other, a blank line between."""

    blocks: list[Block] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _at: int = 0

    def add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        caption: str = "",
        rows: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        """Append a block, unless *text* is blank; ligatures and soft hyphens stay only in code."""
        if kind != "code":
            text, caption = plain_letters(text), plain_letters(caption)
            rows = tuple(tuple(map(plain_letters, row)) for row in rows)
        if not text.strip():
            return
        self.blocks.append(Block(kind, self._at, self._at + len(text), level=level, caption=caption, rows=rows))
        self._texts.append(text)
        self._at += len(text) + 2

    def last_paragraph(self) -> str:
        """The text of the newest block if it is a paragraph, else an empty text."""
        return self._texts[-1] if self.blocks and self.blocks[-1].kind == "paragraph" else ""

    def parsed(self, facets: Facets, warnings: tuple[str, ...] = ()) -> Parsed:
        """The document built so far."""
        return Parsed("\n\n".join(self._texts), tuple(self.blocks), facets, warnings)
