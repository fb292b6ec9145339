from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from rag.cli import DOORS, READER_GONE, command_line, main
from rag.commands.opened import show


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


def test_a_reader_that_has_seen_enough_ends_it_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "rag", "models", "list"], stdout=writing, stderr=subprocess.PIPE, check=False
    )

    os.close(writing)
    assert (done.returncode, done.stderr) == (READER_GONE, b"")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert re.fullmatch(r"rag \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_what_would_steer_the_terminal_is_named_instead(capsys: pytest.CaptureFixture[str]) -> None:
    show("esc\x1b[31mred\x9b2J \x07\r\x7f\x00 Straße, 日本\t|\n\U0001f600")

    assert capsys.readouterr().out == (
        r"esc\u001b[31mred\u009b2J \u0007\u000d\u007f\u0000" + " Straße, 日本\t|\n\U0001f600\n"
    )
