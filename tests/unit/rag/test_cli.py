from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

import pytest

from rag.cli import DOORS, command_line


def named(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What each command of the parser runs."""
    if run := parser.get_default("run"):
        yield run
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from named(command)


@pytest.mark.parametrize("run", sorted(set(named(command_line()))))
def test_what_a_command_runs_is_there(run: str) -> None:
    module, _, function = run.partition(".")

    assert callable(getattr(import_module(f"rag.commands.{module}"), function))


@pytest.mark.parametrize("door", sorted(module for module, _ in DOORS.values()))
def test_a_program_with_a_command_line_of_its_own_is_there(door: str) -> None:
    assert callable(import_module(door).main)
