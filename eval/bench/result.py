"""What a benchmark found: a table for people, and one line of JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """A benchmark's figures by name, the ones it is run for first."""

    benchmark: str
    figures: Mapping[str, object]

    def as_table(self) -> str:
        """A line for each figure."""
        width = max(map(len, self.figures))
        return "".join(f"{name:{width}}  {_shown(value)}\n" for name, value in self.figures.items())

    def as_json(self) -> str:
        """All figures in one line."""
        return json.dumps({"benchmark": self.benchmark, **self.figures}) + "\n"


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
    return f"{value:,}" if isinstance(value, int | float) else str(value)
