"""Pieces to chunks: filled in order, ends on what is whole, small leftovers avoided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ingest.limits import Size
from ingest.pieces import Piece


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece that fits, with its tokens and those of its context."""

    piece: Piece
    tokens: int
    context_tokens: int

    def fits(self) -> bool:
        """Whether it may be a chunk by itself."""
        piece, run = self.piece, self.piece.run
        chars = piece.end - piece.start
        return (
            chars <= run.whole_chars(piece.kind)
            and chars + len(piece.context) <= run.chars
            and self.tokens + self.context_tokens <= run.tokens
        )


class Packer:
    """Chunks of one run, as ranges over its units: all that is asked of a range is answered in constant time."""

    def __init__(self, units: Sequence[Unit]) -> None:
        """Pack *units*, which are in order and of one run."""
        self._units = units
        self._run = units[0].piece.run
        self._tokens = [0, *accumulate(unit.tokens for unit in units)]

    def pack(self) -> list[Sequence[Unit]]:
        """The units by chunk; a short paragraph that ends a chunk may also begin the next."""
        ranges: list[tuple[int, int]] = []
        begin = done = 0
        while done < len(self._units):
            end = self._fill(begin, done + 1)
            ranges.append((begin, end))
            begin = end - 1 if self._overlaps(begin, end) else end
            done = end
        return [self._units[begin:end] for begin, end in self._balanced(ranges)]

    def _fill(self, begin: int, end: int) -> int:
        total = len(self._units)
        if self._fits(begin, total):
            return total
        while end < total and self._chars(begin, end) < self._size(begin, end).minimum and self._fits(begin, end + 1):
            end += 1
        return end

    def _overlaps(self, begin: int, end: int) -> bool:
        if end == begin + 1 or end == len(self._units):
            return False
        last = self._units[end - 1].piece
        short = last.end - last.start <= self._run.limits.overlap_chars
        return last.kind == "paragraph" and last.is_block and short and self._fits(end - 1, end + 1)

    def _balanced(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ranges with no tiny one at the end: it gets the last unit before it, or joins it."""
        if len(ranges) <= 1:
            return ranges
        *head, (begin, end), (_, total) = ranges
        least = self._run.limits.tail_chars
        if self._chars(end, total) >= least:
            return ranges
        fresh = head[-1][1] if head else 0
        if end - fresh > 1 and self._chars(fresh, end - 1) >= least and self._fits(end - 1, total):
            return [*head, (begin, end - 1), (end - 1, total)]
        return [*head, (begin, total)] if self._has_room(begin, total) else ranges

    def _chars(self, begin: int, end: int) -> int:
        return self._units[end - 1].piece.end - self._units[begin].piece.start

    def _size(self, begin: int, end: int) -> Size:
        kinds = {self._units[begin].piece.kind, self._units[end - 1].piece.kind}
        return self._run.size_of("table" if "table" in kinds else "")

    def _fits(self, begin: int, end: int) -> bool:
        return self._chars(begin, end) <= self._size(begin, end).maximum and self._has_room(begin, end)

    def _has_room(self, begin: int, end: int) -> bool:
        first = self._units[begin]
        tokens = self._tokens[end] - self._tokens[begin] + first.context_tokens
        chars = self._chars(begin, end) + len(first.piece.context)
        return tokens <= self._run.tokens and chars <= self._run.chars
