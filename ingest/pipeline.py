"""A document's way in: parse, split, embed, and one transaction that swaps old for new."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from ingest.blocks import Parsed
from ingest.limits import Limits
from ingest.splitter import split
from rag.analysis import ANALYSER, analyse
from rag.errors import CallerError, InvalidInput, StoreError, StoreUnavailable, UpstreamError
from rag.protocols import Embedder
from rag.storable import check_external_id, check_facets
from rag.store.documents import PreparedDocument, fingerprints, replace_documents
from rag.store.engine import Database, TenantTx
from rag.values import Draft, Facets, TenantId, document_id

CHUNKER = "structure-2"  # change it with the parsers and the splitter: what is stored is then written anew


@dataclass(frozen=True, slots=True)
class Source:
    """A document as it came: its id in the tenant, its bytes, and the facets that its sender states."""

    external_id: str
    data: bytes
    content_type: str | None = None
    facets: Mapping[str, object] = field(default_factory=dict)


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
class _Split:
    source: Source
    fingerprint: bytes
    facets: Facets
    text: str
    drafts: Sequence[Draft]
    terms: Sequence[Sequence[str]]
    warnings: tuple[str, ...]


Parse = Callable[[bytes, str, str | None], Awaitable[Parsed]]
BeforeWrite = Callable[[TenantTx, Sequence[PreparedDocument]], Awaitable[bool]]


class Pipeline:
    """Takes sources in batches; one that cannot be read is reported and holds up no other."""

    def __init__(self, database: Database, embedder: Embedder, parse: Parse) -> None:
        """Write to *database* with the vectors of *embedder* what *parse* makes of bytes, name and content type."""
        self._database = database
        self._embedder = embedder
        self._parse = parse
        self._limits = Limits(max_tokens=min(Limits().max_tokens, embedder.max_tokens))

    async def ingest(
        self, tenant_id: TenantId, sources: Sequence[Source], *, before_write: BeforeWrite | None = None
    ) -> list[Result]:
        """One result for each source, in order; the ids are distinct.

        *before_write* runs in the writing transaction and may forbid the write.
        Raises StoreUnavailable when the database is away; nothing of the batch is then written.
        """
        results = {source.external_id: refused for source in sources if (refused := _refused(source))}
        storable_ones = [source for source in sources if source.external_id not in results]
        changed = await self._changed(tenant_id, storable_ones, results)
        split_up: list[_Split] = []
        for source, fingerprint in changed:
            try:
                parsed = await self._parse(source.data, source.external_id, source.content_type)
                split_up.append(await asyncio.to_thread(self._split, source, fingerprint, parsed))
            except CallerError as exc:
                results[source.external_id] = Result(source.external_id, "failed", code=exc.code, reason=exc.detail)
        documents = await self._embed(split_up)
        stored = await self._store(tenant_id, documents, before_write) if documents else {}
        warnings = {part.source.external_id: part.warnings for part in split_up}
        results |= {name: replace(result, warnings=warnings[name]) for name, result in stored.items()}
        return [results[source.external_id] for source in sources]

    async def _store(
        self, tenant_id: TenantId, documents: Sequence[PreparedDocument], before_write: BeforeWrite | None
    ) -> dict[str, Result]:
        """What became of the documents: written together, or one by one when there is one that cannot be."""
        try:
            written = await self._write(tenant_id, documents, before_write)
        except StoreUnavailable:
            raise
        except (StoreError, UpstreamError) as exc:
            if len(documents) == 1:
                name = documents[0].external_id
                return {name: Result(name, "failed", code=exc.code, reason=exc.detail)}
            each = [await self._store(tenant_id, [document], before_write) for document in documents]
            return {name: result for one in each for name, result in one.items()}
        state = "done" if written else "cancelled"
        return {d.external_id: Result(d.external_id, state, len(d.drafts) if written else 0) for d in documents}

    async def _write(
        self, tenant_id: TenantId, documents: Sequence[PreparedDocument], before_write: BeforeWrite | None
    ) -> bool:
        async with self._database.tenant(tenant_id) as tx:
            if before_write is not None and not await before_write(tx, documents):
                return False
            await replace_documents(tx, documents)
        return True

    async def _changed(
        self, tenant_id: TenantId, sources: Sequence[Source], results: dict[str, Result]
    ) -> list[tuple[Source, bytes]]:
        """The sources that are not stored as they are, with their fingerprints; the others go to *results*."""
        ids = {source.external_id: document_id(tenant_id, source.external_id) for source in sources}
        async with self._database.tenant(tenant_id) as tx:
            stored = await fingerprints(tx, list(ids.values()))
        fresh = [(source, self._fingerprint(source)) for source in sources]
        changed = [(s, f) for s, f in fresh if stored.get(ids[s.external_id]) != f]
        same = ids.keys() - {source.external_id for source, _ in changed}
        results |= {name: Result(name, "unchanged") for name in same}
        return changed

    def _fingerprint(self, source: Source) -> bytes:
        """A hash of all that decides what is stored: a new chunker writes anew, the same content does not."""
        stated = json.dumps([source.content_type, dict(source.facets)], sort_keys=True, default=str)
        made_by = f"{CHUNKER} {ANALYSER} {self._embedder.name}"
        return hashlib.sha256(f"{made_by}\n{stated}\n".encode() + source.data).digest()

    def _split(self, source: Source, fingerprint: bytes, parsed: Parsed) -> _Split:
        facets = replace(parsed.facets, **source.facets)  # type: ignore[arg-type]  # fields of Facets, checked at the door
        check_facets(asdict(facets))
        parsed = replace(parsed, facets=facets)
        drafts = split(parsed, count_tokens=self._embedder.count_tokens, limits=self._limits)
        terms = [analyse(draft.indexed, facets.lang) for draft in drafts]
        return _Split(source, fingerprint, facets, parsed.text, drafts, terms, parsed.warnings)

    async def _embed(self, documents: Sequence[_Split]) -> list[PreparedDocument]:
        texts = [draft.indexed for document in documents for draft in document.drafts]
        # the longest first, so that no thread is left alone with one at the end
        order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
        sorted_vectors = await self._embedder.embed_documents([texts[n] for n in order])
        vectors = np.empty_like(sorted_vectors)
        vectors[order] = sorted_vectors
        ends = np.cumsum([len(document.drafts) for document in documents])
        return [
            PreparedDocument(d.source.external_id, d.facets, d.fingerprint, d.text, d.drafts, rows, d.terms)
            for d, rows in zip(documents, np.split(vectors, ends[:-1]) if documents else [], strict=True)
        ]


def _refused(source: Source) -> Result | None:
    """The failure of a source whose id or facets the database could not hold."""
    try:
        check_external_id(source.external_id)
        check_facets(source.facets)
    except InvalidInput as exc:
        return Result(source.external_id, "failed", code=exc.code, reason=exc.detail)
    return None
