"""What a benchmark found: a table for people, and one line of JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """A benchmark's figures by name, the ones it is run for first; `details` are for people only."""

    benchmark: str
    figures: Mapping[str, object]
    details: str = ""

    def as_table(self) -> str:
        """The details, then a line for each figure."""
        width = max(map(len, self.figures))
        return self.details + "".join(f"{name:{width}}  {_shown(value)}\n" for name, value in self.figures.items())

    def as_json(self) -> str:
        """All figures in one line."""
        return json.dumps({"benchmark": self.benchmark, **self.figures}) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows in columns as wide as they need, right-aligned, below their names, with an empty line after them."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(aligned) + "\n\n"


def count(text: str) -> int:
    """A number from 1, as an option's value."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}"
