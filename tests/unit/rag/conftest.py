from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import pytest

from rag.protocols import Score
from rag.values import Chunk, ChunkId, Deadline, DocumentId, Passage


class TableReranker:
    """Scores by a table of last lines; what the table leaves out was cut off by the deadline."""

    name = "table"
    langs: frozenset[str] | None = None

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self.asked: list[list[str]] = []

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        self.asked.append(list(texts))
        return [self.scores.get(text.rpartition("\n")[2], "deadline") for text in texts]


@pytest.fixture
def table_reranker() -> Callable[[Mapping[str, float]], TableReranker]:
    return TableReranker


@pytest.fixture
def chunk() -> Callable[..., Chunk]:
    """Makes the chunk at [start, end) of a section; its text is x's unless given."""

    def make(start: int, end: int, section: tuple[int, int] = (0, 1000), text: str | None = None) -> Chunk:
        return Chunk(
            chunk_id=ChunkId(UUID(int=start + 1)),
            document_id=DocumentId(UUID(int=0)),
            external_id="guide.md",
            title="Guide",
            breadcrumb=("Guide", "Refunds"),
            kind="prose",
            text="x" * (end - start) if text is None else text,
            indexed="x",
            start=start,
            end=end,
            section_start=section[0],
            section_end=section[1],
        )

    return make


@pytest.fixture
def passage(chunk: Callable[..., Chunk]) -> Callable[..., Passage]:
    """Makes source *n* whose text starts at *start* of its document."""

    def make(n: int, text: str, start: int = 0) -> Passage:
        return Passage(n, (chunk(start, start + len(text), text=text),), text, start)

    return make
