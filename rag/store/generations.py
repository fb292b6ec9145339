"""A tenant's indexes side by side: one is built beside another, asked instead of it, or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.rows import TupleRow

from rag.errors import Conflict
from rag.store.engine import Database, TenantTx
from rag.store.indexes import index_state, lock, open_index
from rag.store.upkeep import ask_upkeep
from rag.values import DocumentId, Draft, Facets, Recipe, TenantId

BATCH_DOCUMENTS = 64  # read, embedded and written together: few posting blocks, little to repeat
BATCH_BYTES = 512 * 1024  # of text
DROPPED_DOCUMENTS = 500  # in one transaction: a second or so that uploads wait
DROPPED_BLOCKS = 20_000
NAMED = 10  # documents in a sentence


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its number and what it is made with."""

    generation: int
    recipe: Recipe

    def __str__(self) -> str:
        recipe = self.recipe
        return f"index {self.generation} ({recipe.embedder}, {recipe.analyser}, {recipe.chunker})"


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of a tenant, the lowest first; there is no current one before the first write."""

    current: Index | None
    below: tuple[Index, ...]
    above: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class MissingDocument:
    """A stored version of a document that an index lacks, with all it takes to cut it anew.

    Stored before there were blocks, it comes with its chunks, where an index of the same chunker has them.
    """

    document_id: DocumentId
    external_id: str
    fingerprint: bytes
    text: str
    blocks: bytes | None
    facets: Facets
    drafts: tuple[Draft, ...] = ()


async def indexes_of(tx: TenantTx) -> Indexes:
    """The tenant's indexes as this transaction sees them."""
    rows = await tx.fetch("indexes")
    current = int(rows[0][0]) if rows else 0
    found = [Index(int(generation), Recipe(*recipe)) for _, generation, *recipe in rows]
    return Indexes(
        next((index for index in found if index.generation == current), None),
        tuple(index for index in found if index.generation < current),
        tuple(index for index in found if index.generation > current),
    )


async def open_next(tx: TenantTx, recipe: Recipe) -> Index:
    """The index above the current one, to be made with *recipe*: a new one, or one that is there to go on with.

    Raises Conflict when that one is made with another recipe.
    """
    _, current = await lock(tx)
    above = (await indexes_of(tx)).above
    if not above:
        await open_index(tx, current + 1, recipe)
        return Index(current + 1, recipe)
    if above[-1].recipe != recipe:
        raise Conflict(f"{above[-1]} is there already, made with something else; `--restart` drops it first")
    return above[-1]


async def count_missing(tx: TenantTx, generation: int) -> int:
    """How many documents the index lacks, versions kept as history too.

    Raises Conflict naming those that cannot be cut anew.
    """
    if lost := [row[0] for row in await tx.fetch("without_blocks", generation=generation)]:
        raise Conflict(
            f"stored before schema 0002, without what it takes to cut them anew: {listed(lost)}. Nothing was switched."
            " Ingest them again, then run this again; a tenant that refuses uploads, because another release made its"
            " index, is ingested into a new tenant"
        )
    return int((await tx.fetch("count_missing", generation=generation))[0][0])


async def without_any_vector(tx: TenantTx, generation: int) -> list[str]:
    """The external ids of the documents of which the index has chunks, and no vector of any of them."""
    return [row[0] for row in await tx.fetch("without_any_vector", generation=generation)]


def listed(external_ids: Sequence[str]) -> str:
    """The first of the ids, and how many more there are."""
    more = len(external_ids) - NAMED
    return ", ".join(external_ids[:NAMED]) + (f" and {more} more" if more > 0 else "")


async def missing_documents(tx: TenantTx, generation: int, *, after: DocumentId | None) -> list[MissingDocument]:
    """The next batch of documents, by id after *after*, that the index lacks."""
    rows = await tx.fetch(
        "missing_documents", generation=generation, after=after, most=BATCH_DOCUMENTS, most_bytes=BATCH_BYTES
    )
    documents = [_missing(row) for row in rows]
    return [
        document if document.blocks is not None else await _as_cut(tx, document, generation) for document in documents
    ]


async def switch(tx: TenantTx, generation: int) -> bool:
    """Whether questions now go to that index: not while it lacks a document.

    Raises NotFound when there is no such index.
    """
    await lock(tx)
    await index_state(tx, generation)
    if await count_missing(tx, generation):
        return False
    await tx.run("recount_documents", generation=generation)
    await tx.run("switch_index", generation=generation)
    await ask_upkeep(tx)  # its graph may be empty: who fills graphs again looks at the index that is asked
    return True


async def drop_index(database: Database, tenant: TenantId, generation: int) -> None:
    """Drop an index with all it holds, in many small transactions.

    Whenever this is cut short, a document is wholly in the index or not at all, and the same call goes on. Raises
    Conflict when it is the current one.
    """
    gone, after = False, None
    while not gone:
        async with database.tenant(tenant) as tx:
            gone, after = await _drop_some(tx, generation, after)


async def _drop_some(tx: TenantTx, generation: int, after: DocumentId | None) -> tuple[bool, DocumentId | None]:
    """Whether that was the last of the index, and the document to go on after: documents first, then the postings."""
    _, current = await lock(tx)
    if generation == current:
        raise Conflict(f"index {generation} is the one that is asked; it is not dropped")
    rows = await tx.fetch("leave_index", generation=generation, after=after, most=DROPPED_DOCUMENTS)
    if rows:
        ids = [DocumentId(row[0]) for row in rows]
        await tx.run("delete_chunks_of_index", generation=generation, document_ids=ids)
        return False, max(ids)
    if after is None:  # no document is left, seen from the first on: nobody's postings are among these
        if await tx.run("delete_some_postings", generation=generation, most=DROPPED_BLOCKS) == DROPPED_BLOCKS:
            return False, None
        await tx.run("delete_index", generation=generation)
    return after is None, None


def _missing(row: TupleRow) -> MissingDocument:
    document, external_id, fingerprint, text, blocks, *facets = row
    title, doc_type, source, lang, tags, metadata, acl, *valid = facets
    stated = Facets(title, doc_type, source, lang, tuple(tags), metadata, tuple(acl), *valid)
    stored = None if blocks is None else bytes(blocks)
    return MissingDocument(DocumentId(document), external_id, bytes(fingerprint), text, stored, stated)


async def _as_cut(tx: TenantTx, document: MissingDocument, generation: int) -> MissingDocument:
    rows = await tx.fetch("cut_before", document_id=document.document_id, generation=generation)
    return replace(document, drafts=tuple(_draft(*row) for row in rows))


def _draft(*row: Any) -> Draft:
    position, start, end, section_start, section_end, breadcrumb, *rest = row
    return Draft(position, start, end, section_start, section_end, tuple(breadcrumb), *rest)
