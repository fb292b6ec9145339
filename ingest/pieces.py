"""What chunks are made of: spans that stay whole while they fit, and the next finer spans when they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from ingest.blocks import Block, Parsed
from ingest.cuts import blank_lines, lines, middle, windows, word_groups, words
from ingest.limits import Limits, Size
from ingest.sections import Section
from ingest.tables import CAPTION_CHARS, Row
from rag.sentences import sentence_starts


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Neighbours that may share a chunk, and the room there is beside their breadcrumb."""

    section: Section
    breadcrumb: tuple[str, ...]
    limits: Limits
    size: Size
    tokens: int
    chars: int

    def size_of(self, kind: str) -> Size:
        """The size to fill a chunk with what is of *kind*."""
        return self.limits.table if kind == "table" else self.size

    def whole_chars(self, kind: str) -> int:
        """The characters up to which a piece of *kind* is kept whole."""
        if kind == "code":
            return self.limits.max_chars
        return self.limits.answer_chars if kind == "qa" else self.size_of(kind).maximum


Cut = Callable[[str, "Piece", "tuple[Cut, ...]"], "list[Piece]"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A span, the ways to cut it from coarse to fine, and the words a chunk that begins here needs above it."""

    run: Run
    kind: str
    start: int
    end: int
    cuts: tuple[Cut, ...]
    context: str = ""
    is_block: bool = True

    def finer(self, text: str) -> list[Piece]:
        """The piece by the coarsest cut that divides it; nothing when none does."""
        for n, cut in enumerate(self.cuts):
            parts = cut(text, self, self.cuts[n + 1 :])
            if len(parts) > 1:
                return parts
        return []


def _at(boundaries: Callable[[str], Iterator[int]]) -> Cut:
    def cut(text: str, piece: Piece, rest: tuple[Cut, ...]) -> list[Piece]:
        offsets = [0, *boundaries(text[piece.start : piece.end]), piece.end - piece.start]
        spans = (_trimmed(text, piece, piece.start + a, piece.start + b) for a, b in pairwise(offsets))
        return [replace(piece, start=a, end=b, cuts=rest, is_block=False) for a, b in spans if a < b]

    return cut


def _trimmed(text: str, piece: Piece, start: int, end: int) -> tuple[int, int]:
    span = text[start:end]
    lead = span.lstrip("\n" if piece.kind == "code" else None)  # code keeps its indent
    return end - len(lead), end - len(span) + len(span.rstrip())


def _into(parts: Sequence[Piece]) -> Cut:
    return lambda _text, _piece, _rest: list(parts)


def _fields(row: Row) -> Cut:
    def cut(_text: str, piece: Piece, rest: tuple[Cut, ...]) -> list[Piece]:
        parts, start = [], piece.start
        own_run = replace(piece.run)  # fields of two rows in one chunk would read as one row
        labelled = f"{piece.context}\n{row[0]}".strip()
        for n, field in enumerate(row):
            context = labelled if n else piece.context
            end = min(start + len(field) + 1, piece.end)  # the semicolon belongs to the field it ends
            parts.append(Piece(own_run, piece.kind, start, end, rest, context, is_block=False))
            start = end + 1
        return parts

    return cut


TO_WORDS = (_at(word_groups), _at(words), _at(windows), *[_at(middle)] * 8)  # 8 halvings leave single characters
CUTS: dict[str, tuple[Cut, ...]] = {
    "paragraph": (_at(sentence_starts), _at(lines), *TO_WORDS),
    "qa": (_at(sentence_starts), _at(lines), *TO_WORDS),
    "list": (_at(lines), _at(sentence_starts), *TO_WORDS),
    "code": (_at(blank_lines), _at(lines), *TO_WORDS),
    "heading": TO_WORDS,
    "table": TO_WORDS,
}


def pieces_of(parsed: Parsed, run: Run) -> list[Piece]:
    """The pieces of the run's section in order; a question and its answer are one, in a run of their own."""
    blocks = run.section.blocks
    if run.section.asks():
        return [_joined("qa", _blocks(parsed, run, blocks))]
    pieces: list[Piece] = []
    for number, group in groupby(blocks, key=_QuestionNumber()):
        own = replace(run) if number else run
        parts = _blocks(parsed, own, list(group))
        pieces += [_question_and_answer(parsed.text, parts)] if number else parts
    return pieces


class _QuestionNumber:
    """How many questions have been asked up to a block."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self, block: Block) -> int:
        self._asked += block.kind == "question"
        return self._asked


def _question_and_answer(text: str, parts: list[Piece]) -> Piece:
    question = text[parts[0].start : parts[0].end]
    if len(question) <= CAPTION_CHARS:
        parts = [parts[0], *(replace(part, context=part.context or question) for part in parts[1:])]
    return _joined("qa", parts)


def _joined(kind: str, parts: list[Piece]) -> Piece:
    if len(parts) == 1:
        return replace(parts[0], kind=kind)
    return Piece(parts[0].run, kind, parts[0].start, parts[-1].end, (_into(parts),), parts[0].context)


def _blocks(parsed: Parsed, run: Run, blocks: Sequence[Block]) -> list[Piece]:
    pieces: list[Piece] = []
    for block in blocks:
        if block.kind == "table":
            pieces += _rows(run, block)
            continue
        kind = "qa" if block.kind == "question" else block.kind
        piece = Piece(run, kind, block.start, block.end, CUTS[kind], block.caption)
        if kind == "code" and pieces and pieces[-1].kind == "paragraph":
            piece = _joined("code", [pieces.pop(), piece])
        elif kind == "list" and block.caption:
            items = _at(lines)(parsed.text, piece, piece.cuts[1:])
            piece = _joined("list", [pieces.pop(), *items])
        pieces.append(piece)
    return pieces


def _rows(run: Run, block: Block) -> Iterator[Piece]:
    start = block.start
    for row in block.rows:
        end = start + sum(map(len, row)) + 2 * (len(row) - 1)
        yield Piece(run, "table", start, end, (_fields(row), *CUTS["table"]), block.caption)
        start = end + 1
