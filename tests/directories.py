"""Directories as they are on bad days, for whatever account runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

UNREADABLE_FILE = Path("/proc/self/mem")  # a regular file whose first byte is an input/output error, for root too


def write(directory: Path, files: dict[str, str]) -> None:
    """Make the directory hold these files, and no other that it had."""
    for old in [path for path in directory.rglob("*") if not path.is_dir()]:
        old.unlink()
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_unlistable(directory: Path) -> None:
    """Put a folder into it that nobody can list by its path, which is longer than the system takes."""
    length = os.pathconf(directory, "PC_PATH_MAX")
    opened = os.open(directory, os.O_RDONLY)
    for _ in range(length // 200 + 1):
        os.mkdir("d" * 200, dir_fd=opened)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = deeper
    os.close(opened)
