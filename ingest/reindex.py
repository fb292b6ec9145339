"""Bringing every document of a tenant into an index of it, from what is stored, while it is searched and filled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from ingest.blocks import Parsed, inflated
from ingest.embedding import Embedded, embed
from ingest.patience import in_tenant, patiently
from ingest.pipeline import CHUNKER, Cut, Source, cut, prepared
from rag.analysis import ANALYSER
from rag.errors import Conflict, IndexMismatch
from rag.protocols import Embedder
from rag.store.compaction import compact_if_due
from rag.store.engine import Database, TenantTx
from rag.store.generations import (
    Index,
    MissingDocument,
    count_missing,
    indexes_of,
    missing_documents,
    switch,
    without_any_vector,
)
from rag.store.neighbours import graph_if_large
from rag.store.search import known_vectors
from rag.store.writing import PreparedDocument, add_to_index
from rag.values import ContentId, DocumentId, TenantId

T = TypeVar("T")

WARNINGS_KEPT = 20  # an embedder may refuse every chunk there is


@dataclass(slots=True)
class Progress:
    """How far an index is: documents it got in this run and those it lacks, chunks, and vectors made and reused."""

    documents: int = 0
    missing: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    without_vector: int = 0
    warnings: list[str] = field(default_factory=list)


Show = Callable[[Progress], None]


def unshown(_: Progress) -> None:
    """Nothing: nobody watches."""


class Reindex:
    """Fills one index; cut short at any moment, another one goes on with what is missing."""

    def __init__(
        self, database: Database, tenant_id: TenantId, index: Index, *, embedder: Embedder, show: Show = unshown
    ) -> None:
        """Fill *index* in *database* with the vectors of *embedder*, the one that its recipe names."""
        self.progress = Progress()
        self._database = database
        self._tenant_id = tenant_id
        self._index = index
        self._embedder = embedder
        self._show = show

    async def catch_up(self) -> None:
        """Return when a look found no document that the index lacks: uploads and deletes go on meanwhile.

        Raises Conflict for documents that cannot be cut anew, IndexMismatch when this release would cut them otherwise
        than the index's, NotFound when the index was dropped meanwhile.
        """
        generation = self._index.generation
        while await self._lacks_some():
            after: DocumentId | None = None
            while documents := await self._in_tenant(partial(missing_documents, generation=generation, after=after)):
                await self._bring_in(documents)
                after = documents[-1].document_id

    async def tidy(self) -> None:
        """Merge the many small posting blocks that the building has left, and put a large index into the graph."""
        await self._in_tenant(partial(compact_if_due, index=self._index.generation))
        await patiently(partial(graph_if_large, self._database, self._tenant_id, self._index.generation))

    async def switch(self) -> None:
        """Return when questions go to the index, which then had every document."""
        while not await self._in_tenant(partial(switch, generation=self._index.generation)):
            await self.catch_up()

    async def switch_if_embedded(self) -> list[str]:
        """No one when questions go to the index, which then had every document with a vector at least.

        Otherwise those that have none, as `unembedded`: nothing was switched.
        """

        async def attempt(tx: TenantTx) -> tuple[list[str], bool]:
            # before the lock: it may take seconds
            unembedded = await without_any_vector(tx, self._index.generation)
            return unembedded, not unembedded and await switch(tx, self._index.generation)

        while True:
            unembedded, switched = await self._in_tenant(attempt)
            if unembedded or switched:
                return unembedded
            await self.catch_up()

    async def unembedded(self) -> list[str]:
        """The documents that have chunks in the index and no vector: no question that is put in other words finds them.

        The pipeline stores no such document.
        """
        return await self._in_tenant(partial(without_any_vector, generation=self._index.generation))

    async def _in_tenant(self, work: Callable[[TenantTx], Awaitable[T]]) -> T:
        return await in_tenant(self._database, self._tenant_id, work)

    async def _lacks_some(self) -> bool:
        count = partial(count_missing, generation=self._index.generation)
        self.progress.missing = await self._in_tenant(count)
        self._show(self.progress)
        recipe = self._index.recipe
        if self.progress.missing and (recipe.analyser, recipe.chunker) != (ANALYSER, CHUNKER):
            raise IndexMismatch(
                f"{self._index} lacks {self.progress.missing} documents that changed since, and this release would cut"
                f" them otherwise ({ANALYSER}, {CHUNKER}); use the release that made it"
            )
        return self.progress.missing > 0

    async def _bring_in(self, documents: Sequence[MissingDocument]) -> None:
        parts = [await asyncio.to_thread(_cut_anew, document, self._embedder) for document in documents]
        texts = {content: text for part in parts for content, text in part.texts()}
        vectors = await self._vectors(texts)
        ready = [
            (document.document_id, replace(prepared(part, vectors), fingerprint=document.fingerprint))
            for document, part in zip(documents, parts, strict=True)
        ]
        add = partial(add_to_index, documents=ready, recipe=self._index.recipe, generation=self._index.generation)
        self._count(await self._in_tenant(add))

    async def _vectors(self, texts: Mapping[ContentId, str]) -> Embedded:
        """The texts' vectors: those that an index of the same embedder has already, and the others made anew."""
        vectors: Embedded = {}
        for generation in await self._in_tenant(self._of_same_embedder):
            vectors |= await self._in_tenant(partial(known_vectors, contents=[*texts], generation=generation))
        self.progress.reused += len(vectors)
        async for some in embed(self._embedder, {c: text for c, text in texts.items() if c not in vectors}):
            vectors |= some
            self.progress.embedded += len(some)
            self._show(self.progress)
        return vectors

    async def _of_same_embedder(self, tx: TenantTx) -> list[int]:
        indexes = await indexes_of(tx)
        every = (*indexes.below, *filter(None, (indexes.current,)), *indexes.above)
        return [index.generation for index in every if index.recipe.embedder == self._index.recipe.embedder]

    def _count(self, added: Sequence[PreparedDocument]) -> None:
        now = self.progress
        now.documents += len(added)
        now.missing -= len(added)
        now.chunks += sum(len(document.drafts) for document in added)
        now.without_vector += sum(len(document.quarantined) for document in added)
        warnings = [f"{document.external_id}: {warning}" for document in added for warning in document.warnings]
        now.warnings += warnings[: WARNINGS_KEPT - len(now.warnings)]
        self._show(now)


def _cut_anew(document: MissingDocument, embedder: Embedder) -> Cut:
    source = Source(document.external_id, b"")
    if document.blocks is None:
        if any(n > embedder.max_tokens for n in embedder.count_tokens([draft.indexed for draft in document.drafts])):
            raise Conflict(f"{document.external_id} was cut for an embedder that reads more at once; ingest it again")
        return Cut.of(source, Parsed(document.text, (), document.facets), document.drafts)
    return cut(source, Parsed(document.text, inflated(document.blocks), document.facets), embedder)
