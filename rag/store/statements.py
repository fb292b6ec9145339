"""The named SQL statements of this room, read from store/sql/*.sql.

A statement begins with `-- name: <name>` and one line saying what it returns; parameters are named.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements() -> dict[str, LiteralString]:
    """Every statement by name."""
    found: dict[str, LiteralString] = {}
    for file in sorted((resources.files("rag.store") / "sql").iterdir(), key=lambda f: f.name):
        pieces = _NAME.split(file.read_text(encoding="utf-8"))[1:]
        # files of this package are as literal as the code beside them
        found |= {name: cast("LiteralString", sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True)}
    return found
