"""`rag tenant set`: the weights and the depth that a tenant's searches have of their own."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from rag.errors import InvalidInput
from rag.values import Tuning

if TYPE_CHECKING:
    from rag.store.engine import Database

DEFAULT = "default"  # what takes a value back to the service's setting
NAMES = tuple(field.name for field in fields(Tuning))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give the parser an option for each value that a tenant can have of its own."""
    for name in NAMES:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="NUMBER", help=f"or `{DEFAULT}`: as the service's settings say")


async def change(database: Database, arguments: argparse.Namespace) -> str:
    """The tenant's ranking as it is once the options are followed, a line for each value.

    Raises InvalidInput for values that no ranking can have, NotFound when there is no such tenant.
    """
    from rag.store.tuning import tune  # noqa: PLC0415 - the parser is made without a database driver

    given = {name: getattr(arguments, name) for name in NAMES if getattr(arguments, name) is not None}
    tuned = await tune(database, arguments.name, {name: _value(name, text) for name, text in given.items()})
    shown = {name: DEFAULT if value is None else f"{value:g}" for name, value in asdict(tuned).items()}
    return "\n".join(f"{name:15} {value}" for name, value in shown.items())


def _value(name: str, text: str) -> float | None:
    if text == DEFAULT:
        return None
    try:
        return int(text) if name == "depth" else float(text)
    except ValueError as exc:
        raise InvalidInput(f"{name} is a number or `{DEFAULT}`, not {text[:40]!r}") from exc
