"""`rag tenant set` and `show`: the weights and the depth of a tenant's searches."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields

from rag.errors import InvalidInput
from rag.ranking import Ranking
from rag.values import Tuning

DEFAULT = "default"  # what takes a value back to the service's setting
NAMES = tuple(field.name for field in fields(Tuning))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give the parser an option for each value that a tenant can have of its own."""
    for name in NAMES:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="NUMBER", help=f"or `{DEFAULT}`: as the service's settings say")


def changes(arguments: argparse.Namespace) -> dict[str, float | None]:
    """The values that the options give, None for one that goes back to the settings.

    Raises InvalidInput for what is no number.
    """
    given = {name: getattr(arguments, name) for name in NAMES if getattr(arguments, name) is not None}
    return {name: _value(name, text) for name, text in given.items()}


def lines(tuning: Tuning, service: Ranking) -> str:
    """A line for each value that is in force, those of the *service* marked."""
    used = service.of(tuning)
    return "\n".join(
        f"{name:15} {getattr(used, name):g}{f' ({DEFAULT})' if own is None else ''}"
        for name, own in asdict(tuning).items()
    )


def _value(name: str, text: str) -> float | None:
    if text == DEFAULT:
        return None
    try:
        return int(text) if name == "depth" else float(text)
    except ValueError as exc:
        raise InvalidInput(f"{name} is a number or `{DEFAULT}`, not {text[:40]!r}") from exc
