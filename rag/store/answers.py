"""Answers that were made, kept until they are stale or one of the documents they were made from changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from pgvector import HalfVector

from rag.protocols import Vectors
from rag.store.engine import TenantTx
from rag.values import DocumentId, Passage

ROW_BYTES = 300  # about what a row takes beside what is in it, with its entries in the indexes
SOURCE_BYTES = 150


@dataclass(frozen=True, slots=True)
class AnswerToKeep:
    """An answer with the hash of all it was made from; its question only where similar ones are looked for.

    One that is not `dated` was asked as of the moment it was made, and ends with the validity of its sources.
    """

    key: bytes
    kin: bytes
    body: str
    passages: tuple[Passage, ...]
    question: str | None = None
    vector: Vectors | None = None
    dated: bool = False

    @property
    def size_bytes(self) -> int:
        """About what it takes in the database."""
        vector = 0 if self.vector is None else 2 * self.vector.size
        words = len(self.body.encode()) + len((self.question or "").encode())
        return ROW_BYTES + SOURCE_BYTES * len(self.passages) + vector + words


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """An answer to another question, and how far that one is."""

    question: str
    distance: float
    body: str


async def find_answer(tx: TenantTx, key: bytes) -> str | None:
    """The answer kept under the key, if it is fresh."""
    rows = await tx.fetch("find_answer", key=key)
    return str(rows[0][0]) if rows else None


async def similar_answers(tx: TenantTx, kin: bytes, vector: Vectors, *, limit: int) -> list[SimilarAnswer]:
    """The *limit* answers of the same kin to the nearest questions, nearest first."""
    rows = await tx.fetch("similar_answers", kin=kin, vector=HalfVector(vector), limit=limit)
    return [SimilarAnswer(str(question), float(distance), str(body)) for question, distance, body in rows]


async def keep_answer(tx: TenantTx, answer: AnswerToKeep, *, ttl_s: float, most_bytes: int) -> bool:
    """Whether the answer is kept: not when it is too large, or a document is no longer as it was read.

    The oldest answers beyond *most_bytes* of the tenant are dropped.
    """
    if answer.size_bytes > most_bytes:
        return False
    kept = await tx.run(
        "keep_answer",
        key=answer.key,
        kin=answer.kin,
        question=answer.question,
        vector=None if answer.vector is None else HalfVector(answer.vector),
        body=answer.body,
        size_bytes=answer.size_bytes,
        ttl_s=ttl_s,
        dated=answer.dated,
        document_ids=[passage.chunk.document_id for passage in answer.passages],
        chunk_ids=[passage.chunk.chunk_id for passage in answer.passages],
        headings=["\x1f".join((passage.chunk.title, *passage.chunk.breadcrumb)) for passage in answer.passages],
        starts=[passage.start for passage in answer.passages],
        lengths=[len(passage.text) for passage in answer.passages],
        digests=[sha256(passage.text.encode()).digest() for passage in answer.passages],
    )
    if kept:
        await tx.run("lock_answers")
        await tx.run("trim_answers", most_bytes=most_bytes)
    return bool(kept)


async def drop_stale_answers(tx: TenantTx) -> None:
    """Delete the answers that nobody is given any more; who keeps one does so too, but may never come again."""
    await tx.run("drop_stale_answers")


async def forget_answers(tx: TenantTx, documents: Sequence[DocumentId]) -> None:
    """Delete every answer that was made from one of the documents.

    Call it after their rows were written or deleted: then nobody can be keeping one meanwhile.
    """
    await tx.run("forget_answers", document_ids=list(documents))
