"""Small-to-big: from the chunks that were found to the sections they stand in."""

from __future__ import annotations

from collections.abc import Sequence

from rag.store.engine import Database
from rag.store.search import load_spans
from rag.values import Chunk, DocumentId, Hit, Passage, Scope, TenantId


async def expand(
    database: Database, tenant_id: TenantId, hits: Sequence[Hit], *, scope: Scope, section_chars: int
) -> tuple[Passage, ...]:
    """The sections that were hit, best hit first: up to *section_chars* around the hits in them.

    Hits of one section that are too far apart make passages of their own. What is gone meanwhile makes none.
    """
    groups = _groups([hit.chunk for hit in hits], section_chars)
    windows = [_window(chunks, section_chars) for chunks in groups]
    wanted = [(chunks[0].document_id, *window) for chunks, window in zip(groups, windows, strict=True)]
    async with database.reading(tenant_id) as tx:
        texts = await load_spans(tx, scope, wanted)
    found = [
        (chunks, window[0], text)
        for chunks, window, text in zip(groups, windows, texts, strict=True)
        if text is not None and _still_there(chunks[0], window[0], text)
    ]
    return tuple(Passage(n, tuple(chunks), text, start) for n, (chunks, start, text) in enumerate(found, 1))


def _groups(chunks: Sequence[Chunk], size: int) -> list[list[Chunk]]:
    """The chunks by section, those that one window can hold together."""
    sections: dict[tuple[DocumentId, int], list[list[Chunk]]] = {}
    groups: list[list[Chunk]] = []
    for chunk in chunks:
        of_section = sections.setdefault((chunk.document_id, chunk.section_start), [])
        near = next((group for group in of_section if _span([*group, chunk]) <= size), None)
        if near is None:
            near = []
            of_section.append(near)
            groups.append(near)
        near.append(chunk)
    return groups


def _span(chunks: Sequence[Chunk]) -> int:
    return max(chunk.end for chunk in chunks) - min(chunk.start for chunk in chunks)


def _window(chunks: Sequence[Chunk], size: int) -> tuple[int, int]:
    """As much of the section around the chunks as fits, on both sides alike where there is as much."""
    section = chunks[0]
    start, end = min(chunk.start for chunk in chunks), max(chunk.end for chunk in chunks)
    spare = max(0, size - (end - start))
    left, right = start - section.section_start, section.section_end - end
    before = min(left, max(spare // 2, spare - right))
    after = min(right, spare - before)
    return start - max(0, before), end + max(0, after)


def _still_there(chunk: Chunk, start: int, text: str) -> bool:
    """Whether the document is the version the chunk was found in."""
    return text[chunk.start - start : chunk.end - start] == chunk.text
