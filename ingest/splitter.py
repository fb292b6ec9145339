"""Parsed documents to chunks along their structure, never over the model's token limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ingest.blocks import Parsed
from ingest.limits import DEFAULT_LIMITS, Limits
from ingest.packing import Packer, Unit
from ingest.pieces import Piece, Run, pieces_of
from ingest.sections import Section, outline
from rag.values import Draft

SEPARATOR = " > "
Chunk = Sequence[Unit]
COUNTED_CHARS = 1_000_000  # at a time: a tokenizer needs a hundred times as much memory as the text it reads


def split(
    parsed: Parsed, *, count_tokens: Callable[[Sequence[str]], list[int]], limits: Limits = DEFAULT_LIMITS
) -> list[Draft]:
    """The document's chunks in order; each one's text is the document's own, and no word of it is in none."""
    return _Splitter(parsed, count_tokens, limits).drafts()


class _Splitter:
    def __init__(self, parsed: Parsed, count_tokens: Callable[[Sequence[str]], list[int]], limits: Limits) -> None:
        self._parsed = parsed
        self._count_tokens = count_tokens
        self._limits = limits
        self._marks = count_tokens([""])[0]  # what the tokenizer adds to every text

    def drafts(self) -> list[Draft]:
        pieces = [piece for run in self._runs() for piece in pieces_of(self._parsed, run)]
        runs = groupby(self._fitting(pieces), key=lambda unit: unit.piece.run)
        chunks = [chunk for _, units in runs for chunk in Packer([*units]).pack()]
        return [self._draft(position, chunk) for position, chunk in enumerate(self._proven(chunks))]

    def _runs(self) -> Iterator[Run]:
        """A run for each section with blocks, and for each heading that stands in no chunk's breadcrumb."""
        sections = list(outline(self._parsed))
        names = {name: 0 for section in sections for name in section.crumbs}
        names = dict(zip(names, self._counts(names), strict=True))
        shown = {
            heading.start
            for section in sections
            if section.blocks and (kept := len(self._breadcrumb(section.crumbs, names)))
            for heading in section.headings[-kept:]
        }
        for section in sections:
            if section.headings and section.headings[-1].start not in shown:
                yield self._run(section.of_heading(), names)
            if section.blocks:
                yield self._run(section, names)

    def _run(self, section: Section, names: dict[str, int]) -> Run:
        breadcrumb = self._breadcrumb(section.crumbs, names)
        limits = self._limits
        return Run(
            section=section,
            breadcrumb=breadcrumb,
            limits=limits,
            size=limits.reference if section.is_reference(self._parsed) else limits.prose,
            tokens=limits.max_tokens - self._marks - sum(names[name] + 1 for name in breadcrumb),
            chars=limits.max_chars - len(SEPARATOR.join(breadcrumb)) - 2,  # two line ends: under it, under a context
        )

    def _breadcrumb(self, crumbs: tuple[str, ...], tokens: dict[str, int]) -> tuple[str, ...]:
        """The innermost of *crumbs* that leave at least half of a chunk to its text."""
        kept = len(crumbs)
        while kept and (
            sum(tokens[name] + 1 for name in crumbs[-kept:]) > self._limits.max_tokens // 2
            or sum(len(name) + len(SEPARATOR) for name in crumbs[-kept:]) > self._limits.max_chars // 2
        ):
            kept -= 1
        return crumbs[len(crumbs) - kept :]

    def _fitting(self, pieces: list[Piece]) -> list[Unit]:
        """The pieces with their tokens, those too large cut as finely as they must be; one count for all of a round."""
        if not pieces:
            return []
        contexts = list({piece.context: None for piece in pieces})
        counts = self._counts([*contexts, *(self._parsed.text[piece.start : piece.end] for piece in pieces)])
        context_tokens = dict(zip(contexts, counts, strict=False))
        units: list[Unit] = []
        finer: list[Piece] = []
        for piece, tokens in zip(pieces, counts[len(contexts) :], strict=True):
            unit = self._unit(piece, tokens, context_tokens[piece.context])
            parts = [] if unit.fits() else piece.finer(self._parsed.text)
            finer += parts
            units += [] if parts else [unit]
        return sorted(units + self._fitting(finer), key=lambda unit: unit.piece.start)

    def _counts(self, texts: Iterable[str]) -> list[int]:
        """The tokens of each text; one longer than any chunk is not read and counts as more than fits."""
        texts = list(texts)
        too_many = self._limits.max_tokens + 1
        read = (text for text in texts if len(text) <= self._limits.max_chars)
        counts = (count - self._marks for part in _parts(read) for count in self._count_tokens(part))
        return [next(counts) if len(text) <= self._limits.max_chars else too_many for text in texts]

    def _unit(self, piece: Piece, tokens: int, context_tokens: int) -> Unit:
        """The piece as measured; a context that would take over a quarter of a chunk is left away."""
        limits = self._limits
        if context_tokens > limits.max_tokens // 4 or len(piece.context) > limits.max_chars // 4:
            return Unit(replace(piece, context=""), tokens, 0)
        return Unit(piece, tokens, context_tokens)

    def _proven(self, chunks: list[Chunk]) -> list[Chunk]:
        """The chunks as counted whole: a tokenizer may read joined pieces as more tokens than it read of each."""
        if not chunks:
            return []
        within: list[Chunk] = []
        halves: list[Chunk] = []
        for chunk, count in zip(chunks, self._counts(map(self._indexed, chunks)), strict=True):
            parts = [] if count + self._marks <= self._limits.max_tokens else self._halves(chunk)
            halves += parts
            within += [] if parts else [chunk]
        return sorted(within + self._proven(halves), key=lambda chunk: chunk[0].piece.start)

    def _halves(self, chunk: Chunk) -> list[Chunk]:
        if len(chunk) > 1:
            return [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
        return [[unit] for unit in self._fitting(chunk[0].piece.finer(self._parsed.text))]

    def _indexed(self, chunk: Chunk) -> str:
        first = chunk[0].piece
        text = self._parsed.text[first.start : chunk[-1].piece.end]
        return "\n".join(filter(None, (SEPARATOR.join(first.run.breadcrumb), first.context, text)))

    def _draft(self, position: int, chunk: Chunk) -> Draft:
        first, last = chunk[0].piece, chunk[-1].piece
        blocks = first.run.section.blocks
        chars_by_kind: Counter[str] = Counter()
        for unit in chunk:
            chars_by_kind[unit.piece.kind] += unit.piece.end - unit.piece.start
        return Draft(
            position=position,
            start=first.start,
            end=last.end,
            section_start=blocks[0].start,
            section_end=blocks[-1].end,
            breadcrumb=first.run.breadcrumb,
            kind=chars_by_kind.most_common(1)[0][0],
            text=self._parsed.text[first.start : last.end],
            indexed=self._indexed(chunk),
        )


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in lists of about as many characters as are counted at a time."""
    part: list[str] = []
    chars = 0
    for text in texts:
        part.append(text)
        chars += len(text)
        if chars > COUNTED_CHARS:
            yield part
            part, chars = [], 0
    if part:
        yield part
