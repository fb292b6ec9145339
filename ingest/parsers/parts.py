"""A document inside a document."""

from __future__ import annotations

from ingest.blocks import Parsed, TextBuilder


def add_part(document: TextBuilder, part: Parsed, *, below: int = 0) -> None:
    """Append the blocks of *part*, its headings below those of level *below*."""
    for block in part.blocks:
        level = block.level + below if block.kind == "heading" else 0
        document.add(block.kind, part.of(block), level=level, caption=block.caption, rows=block.rows)
