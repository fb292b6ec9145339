"""Small-to-big: from the chunks that were found to the sections they stand in."""

from __future__ import annotations

from collections.abc import Sequence

from rag.store.documents import spans
from rag.store.engine import Database
from rag.values import Chunk, DocumentId, Hit, Passage, TenantId


async def expand(
    database: Database, tenant_id: TenantId, hits: Sequence[Hit], *, section_chars: int
) -> tuple[Passage, ...]:
    """One passage for each section that was hit, best hit first: up to *section_chars* of it around the hits."""
    sections: dict[tuple[DocumentId, int], list[Chunk]] = {}
    for hit in hits:
        sections.setdefault((hit.chunk.document_id, hit.chunk.section_start), []).append(hit.chunk)
    windows = [_window(chunks, section_chars) for chunks in sections.values()]
    async with database.tenant(tenant_id) as tx:
        texts = await spans(
            tx, [(chunks[0].document_id, *window) for chunks, window in zip(sections.values(), windows, strict=True)]
        )
    return tuple(
        _passage(n, chunks, window[0], text)
        for n, (chunks, window, text) in enumerate(zip(sections.values(), windows, texts, strict=True), 1)
    )


def _window(chunks: Sequence[Chunk], size: int) -> tuple[int, int]:
    """As much of the section as fits, the best chunk in it whole, other hits where they fit."""
    best = chunks[0]
    start, end = best.start, best.end
    for chunk in chunks[1:]:
        if max(end, chunk.end) - min(start, chunk.start) <= size:
            start, end = min(start, chunk.start), max(end, chunk.end)
    spare = max(0, size - (end - start))
    after = min(best.section_end - end, spare - min(spare // 2, start - best.section_start))
    before = min(start - best.section_start, spare - max(0, after))
    return start - max(0, before), end + max(0, after)


def _passage(n: int, chunks: Sequence[Chunk], start: int, text: str | None) -> Passage:
    chunk = chunks[0]
    inside = slice(chunk.start - start, chunk.end - start)
    if text is None or text[inside] != chunk.text:  # the document was replaced in between; the chunk is still whole
        return Passage(n, (chunk,), chunk.text, chunk.start)
    return Passage(n, tuple(chunks), text, start)
