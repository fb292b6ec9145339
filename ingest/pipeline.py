"""A document's way in: parse, split, embed, and one transaction that swaps old for new."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from ingest.blocks import Parsed, deflated
from ingest.embedding import Embedded, embed
from ingest.limits import Limits
from ingest.splitter import split
from rag.analysis import ANALYSER, analyse
from rag.errors import CallerError, IndexFull, IndexMismatch, InvalidInput, StoreError, StoreUnavailable, UpstreamError
from rag.protocols import Embedder
from rag.storable import check_external_id, check_facets, check_validity
from rag.store.documents import fingerprints
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, check_embedder, check_recipe, index_state
from rag.store.queue import Progress
from rag.store.search import known_vectors
from rag.store.writing import PreparedDocument, replace_documents
from rag.values import DIMS, ContentId, Draft, Recipe, TenantId, content_id, document_id

CHUNKER = "structure-2"  # change it with the splitter: an index holds chunks of one kind
LOOK_S = 0.5  # between two looks at who still wants a document, while it is embedded
PARSERS = "7"  # change it with the parsers: the same file is then written anew


@dataclass(frozen=True, slots=True)
class Source:
    """A document as it came: its id in the tenant, its bytes, and the facets that its sender states."""

    external_id: str
    data: bytes
    content_type: str | None = None
    facets: Mapping[str, object] = field(default_factory=dict)
    folder: str | None = None
    keep_history: bool = False

    def fingerprint(self) -> bytes:
        """A hash of all that decides what is stored: new parsers write anew, the same content does not."""
        return self.hashed().digest()

    def hashed(self) -> hashlib._Hash:
        """The hash before its end: it can take in content that is not in memory at once."""
        stated = json.dumps([self.content_type, dict(self.facets), self.folder], sort_keys=True, default=str)
        digest = hashlib.sha256(f"{PARSERS}\n{stated}\n".encode())
        digest.update(self.data)
        return digest


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a source: `done`, `unchanged`, `cancelled`, or `failed` with a reason."""

    external_id: str
    state: str
    chunks: int = 0
    code: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A document cut into chunks, with what each says and its terms."""

    source: Source
    parsed: Parsed
    drafts: Sequence[Draft]
    contents: Sequence[ContentId]
    terms: Sequence[Sequence[str]]

    @classmethod
    def of(cls, source: Source, parsed: Parsed, drafts: Sequence[Draft]) -> Cut:
        """The document in these chunks."""
        contents = [content_id(draft.indexed) for draft in drafts]
        terms = [analyse(draft.indexed, parsed.facets.lang) for draft in drafts]
        return cls(source, parsed, drafts, contents, terms)

    def texts(self) -> Iterator[tuple[ContentId, str]]:
        """What each chunk says, by its id."""
        return zip(self.contents, (draft.indexed for draft in self.drafts), strict=True)


Parse = Callable[[bytes, str, str | None], Awaitable[Parsed]]
BeforeWrite = Callable[[TenantTx, Sequence[PreparedDocument]], Awaitable[AbstractSet[str]]]
Watch = Callable[[Mapping[str, Progress]], Awaitable[AbstractSet[str]]]


async def all_written(_: TenantTx, documents: Sequence[PreparedDocument]) -> AbstractSet[str]:
    """Every id."""
    return {document.external_id for document in documents}


async def unwatched(progress: Mapping[str, Progress]) -> AbstractSet[str]:
    """Every id: nobody watches, nobody gives up."""
    return progress.keys()


class Pipeline:
    """Takes sources in batches; one that cannot be read is reported and holds up no other."""

    def __init__(self, database: Database, embedders: Mapping[str, Embedder], parse: Parse) -> None:
        """Write to *database* what *parse* makes of bytes, name and content type.

        A tenant's vectors come from that one of *embedders*, by name, that made its index; the first makes new ones.
        """
        self._database = database
        self._embedders = embedders
        self._parse = parse

    async def ingest(
        self,
        tenant_id: TenantId,
        sources: Sequence[Source],
        *,
        before_write: BeforeWrite = all_written,
        watch: Watch = unwatched,
    ) -> list[Result]:
        """One result for each source, in order; the ids are distinct.

        *before_write* runs in the writing transaction and says which documents are written; *watch* is told how far
        each is, and says which of them are still wanted. Raises StoreUnavailable when the database is away,
        UpstreamError when the embedder fails, IndexFull when no numbers are left; nothing of the batch is then written.
        """
        results = {source.external_id: failed for source in sources if (failed := refused(source))}
        async with self._database.tenant(tenant_id) as tx:
            state = await index_state(tx)
            changed = await changed_sources(tx, [s for s in sources if s.external_id not in results])
        recipe = self._recipe(state)
        same = {source.external_id for source in sources} - results.keys() - {s.external_id for s in changed}
        results |= {name: Result(name, "unchanged") for name in same}
        parts = await self._cut_all(changed, self._embedders[recipe.embedder], results=results, watch=watch)
        documents = await self._embed(tenant_id, parts, recipe=recipe, generation=state.generation, watch=watch)
        results |= {d.external_id: _unembedded(d) for d in documents if d.drafts and not d.chunk_count}
        documents = [document for document in documents if document.external_id not in results]
        await watch({document.external_id: _progress("writing", document) for document in documents})
        results |= await self._store(tenant_id, documents, recipe=recipe, before_write=before_write)
        return [results.get(s.external_id, Result(s.external_id, "cancelled")) for s in sources]

    async def check(self, tenant_id: TenantId) -> None:
        """Return only if the tenant's index is one that this process can write to.

        Raises IndexMismatch otherwise.
        """
        async with self._database.tenant(tenant_id) as tx:
            self._recipe(await index_state(tx))

    def _recipe(self, state: IndexState) -> Recipe:
        """What the tenant's chunks are made with.

        Raises IndexMismatch when that is not what this process can make.
        """
        ours = Recipe(next(iter(self._embedders)), ANALYSER, CHUNKER)
        if state.recipe is None:
            return ours
        check_embedder(state.recipe.embedder, self._embedders)
        check_recipe(state.recipe, replace(ours, embedder=state.recipe.embedder))
        return state.recipe

    async def _cut_all(
        self, sources: Sequence[Source], embedder: Embedder, *, results: dict[str, Result], watch: Watch
    ) -> list[Cut]:
        """The sources in chunks; those that cannot be read go to *results*."""
        parts: list[Cut] = []
        for source in sources:
            if source.external_id not in await watch({source.external_id: Progress("parsing")}):
                continue
            try:
                parsed = await self._parse(source.data, source.external_id, source.content_type)
                parts.append(await asyncio.to_thread(cut, source, parsed, embedder))
            except CallerError as exc:
                results[source.external_id] = Result(source.external_id, "failed", code=exc.code, reason=exc.detail)
        return parts

    async def _embed(
        self, tenant_id: TenantId, parts: Sequence[Cut], *, recipe: Recipe, generation: int, watch: Watch
    ) -> list[PreparedDocument]:
        """The documents that are still wanted, with the vectors of their chunks."""
        texts = _texts(parts)
        async with self._database.tenant(tenant_id) as tx:
            vectors: Embedded = {**await known_vectors(tx, list(texts), generation=generation)}
        parts = await _wanted(parts, vectors, watch)
        missing = {content: text for content, text in _texts(parts).items() if content not in vectors}
        next_look = time.monotonic() + LOOK_S
        async for some in embed(self._embedders[recipe.embedder], missing):
            vectors |= some
            if time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + LOOK_S
            wanted = await _wanted(parts, vectors, watch)
            if len(wanted) < len(parts):
                parts = wanted
                for content in missing.keys() - _texts(parts).keys():
                    del missing[content]
        return [prepared(part, vectors) for part in parts]

    async def _store(
        self, tenant_id: TenantId, documents: Sequence[PreparedDocument], *, recipe: Recipe, before_write: BeforeWrite
    ) -> dict[str, Result]:
        """What became of the documents: written together, or one by one when there is one that cannot be."""
        if not documents:
            return {}
        try:
            written = await self._write(tenant_id, documents, recipe=recipe, before_write=before_write)
        except (StoreUnavailable, IndexMismatch, IndexFull):
            raise
        except (StoreError, UpstreamError) as exc:
            if len(documents) == 1:
                name = documents[0].external_id
                return {name: Result(name, "failed", code=exc.code, reason=exc.detail)}
            each = [await self._store(tenant_id, [d], recipe=recipe, before_write=before_write) for d in documents]
            return {name: result for one in each for name, result in one.items()}
        return {
            d.external_id: Result(d.external_id, "done", d.chunk_count, warnings=d.warnings)
            for d in documents
            if d.external_id in written
        }

    async def _write(
        self, tenant_id: TenantId, documents: Sequence[PreparedDocument], *, recipe: Recipe, before_write: BeforeWrite
    ) -> AbstractSet[str]:
        async with self._database.tenant(tenant_id) as tx:
            allowed = await before_write(tx, documents)
            if wanted := [document for document in documents if document.external_id in allowed]:
                await replace_documents(tx, wanted, recipe)
        return allowed


async def changed_sources(tx: TenantTx, sources: Sequence[Source]) -> list[Source]:
    """Those of *sources* that are not stored as they are."""
    ids = {source.external_id: document_id(tx.tenant_id, source.external_id) for source in sources}
    stored = await fingerprints(tx, list(ids.values()))
    return [source for source in sources if stored.get(ids[source.external_id]) != source.fingerprint()]


def cut(source: Source, parsed: Parsed, embedder: Embedder) -> Cut:
    """The document in chunks that *embedder* can read whole.

    Raises InvalidInput for facets that cannot be stored.
    """
    facets = replace(parsed.facets, **source.facets)  # type: ignore[arg-type]  # fields of Facets, checked at the door
    check_facets(asdict(facets))
    check_validity(facets.valid_from, facets.valid_to)
    parsed = replace(parsed, facets=facets)
    limits = Limits(max_tokens=min(Limits().max_tokens, embedder.max_tokens))
    return Cut.of(source, parsed, split(parsed, count_tokens=embedder.count_tokens, limits=limits))


def prepared(part: Cut, vectors: Embedded) -> PreparedDocument:
    """The document with the vectors of its chunks; those that have none are quarantined with the reason."""
    found = [vectors[content] for content in part.contents]
    refused = {n: reason for n, reason in enumerate(found) if isinstance(reason, str)}
    blank = np.zeros(next((len(v) for v in vectors.values() if not isinstance(v, str)), DIMS), np.float32)
    rows = [blank if isinstance(vector, str) else vector for vector in found]
    warnings = (
        f"the chunk at {part.drafts[n].start}-{part.drafts[n].end} has no vector, only words: {reason}"
        for n, reason in refused.items()
    )
    return PreparedDocument(
        part.source.external_id,
        part.parsed.facets,
        part.source.fingerprint(),
        part.parsed.text,
        part.drafts,
        np.stack(rows) if rows else np.zeros((0, len(blank)), np.float32),
        part.terms,
        deflated(part.parsed.blocks),
        quarantined=refused,
        warnings=(*part.parsed.warnings, *warnings),
        folder=part.source.folder,
        keep_history=part.source.keep_history,
    )


async def _wanted(parts: Sequence[Cut], vectors: Embedded, watch: Watch) -> list[Cut]:
    progress = {
        part.source.external_id: Progress(
            "embedding", sum(map(vectors.__contains__, part.contents)), len(part.contents)
        )
        for part in parts
    }
    alive = await watch(progress)
    return [part for part in parts if part.source.external_id in alive]


def _texts(parts: Sequence[Cut]) -> dict[ContentId, str]:
    return {content: text for part in parts for content, text in part.texts()}


def _progress(stage: str, document: PreparedDocument) -> Progress:
    return Progress(stage, len(document.drafts), len(document.drafts))


def _unembedded(document: PreparedDocument) -> Result:
    reason = f"the embedder refused every chunk: {next(iter(document.quarantined.values()))}"
    return Result(document.external_id, "failed", code=InvalidInput.code, reason=reason)


def refused(source: Source) -> Result | None:
    """The failure of a source whose id or facets the database could not hold."""
    try:
        check_external_id(source.external_id)
        check_facets(source.facets)
    except InvalidInput as exc:
        return Result(source.external_id, "failed", code=exc.code, reason=exc.detail)
    return None
