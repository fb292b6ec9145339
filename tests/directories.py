"""Directories as they are on bad days, for whatever account runs the tests; and for databases, as on good ones."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # where Linux has a file system in memory
ROOM_BYTES = 2 * 2**30  # several times what all servers of a run take
UNREADABLE_FILE = Path("/proc/self/mem")  # a regular file whose first byte is an input/output error, for root too


@contextmanager
def short_lived(prefix: str) -> Iterator[Path]:
    """A directory for a database, in memory where there is room: on some disks, making one takes ten times as long."""
    # not pytest's own folder: it is closed to the account that the server runs as
    room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY if room else None) as folder:
        yield Path(folder)


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
