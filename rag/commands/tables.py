"""Rows in columns, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows below their heads, each column as wide as it must be; numbers, and their heads, stand to the right."""
    columns = list(zip(head, *rows, strict=True))
    return "\n".join("  ".join(line).rstrip() for line in zip(*map(_aligned, columns), strict=True))


def _aligned(column: Sequence[object]) -> list[str]:
    """The cells, the first being the head, all of one width."""
    width = max(len(str(cell)) for cell in column)
    is_numeric = all(isinstance(cell, int) for cell in column[1:])
    return [str(cell).rjust(width) if is_numeric else str(cell).ljust(width) for cell in column]
