"""A command run to its end: its output, its time and its peak memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from eval.errors import CannotRun

SAMPLE_S = 0.1
STOP_S = 20
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, or KiB
MIB = 1024 * 1024
_SIZES = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command printed, how long it ran from its start to its end, and its peak memory.

    The memory is that of the process and its children together, and never less than the peak of the largest of them,
    looked at ten times a second; without a /proc, it is that of the largest. A server left behind is not among them.
    """

    output: str
    seconds: float
    peak_rss_mb: float


def finish(command: Sequence[str]) -> Finished:
    """The end of *command*.

    Raises CannotRun, quoting its last words, when it fails.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        with running(command, stdout=output, stderr=errors) as process:
            peak = _watch(process)
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            said = last_words(errors.read() or output.read())
            raise CannotRun(f"`{' '.join(command)}` ended with {process.returncode}: {said}")
        return Finished(output.read().decode(), seconds, peak / MIB)


@contextmanager
def running(
    command: Sequence[str], *, stdout: IO[bytes] | int, stderr: IO[bytes], stdin: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of *command*; it is asked to end, as by Ctrl-C, when the block does."""
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr)  # noqa: S603 - this project's
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # a killed process would leave its database running
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def last_words(output: bytes) -> str:
    """The end of what a program said, in one line."""
    return " / ".join(output.decode(errors="replace").strip().splitlines()[-3:]) or "it said nothing"


def _watch(process: subprocess.Popen[bytes]) -> int:
    """The peak memory in bytes of *process*, which has ended then."""
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            # the kernel's own number begins with what this process had when it started the other
            return peak or usage.ru_maxrss * MAXRSS_UNIT
        memory = list(_memory(process.pid))
        peak = max([peak, sum(now for now, _ in memory), *(highest for _, highest in memory)])
        time.sleep(SAMPLE_S)


def _memory(pid: int, above: bytes = b"") -> Iterator[tuple[int, int]]:
    """The resident bytes, now and at their highest, of a process and of each below it; nothing for what has ended."""
    folder = Path("/proc", str(pid))
    try:
        command = (folder / "cmdline").read_bytes()
        sizes = {name: int(kib) * 1024 for name, kib in _SIZES.findall((folder / "status").read_text())}
        children = [int(child) for task in (folder / "task").glob("*/children") for child in task.read_text().split()]
    except OSError:
        return
    if command == above:  # forked a moment ago: its memory is its parent's still
        return
    yield sizes.get("VmRSS", 0), sizes.get("VmHWM", 0)
    for child in children:
        yield from _memory(child, command)
