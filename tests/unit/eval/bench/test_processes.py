"""Commands run to their end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from eval.bench.processes import finish, running
from eval.errors import CannotRun

pytestmark = pytest.mark.quiet

LARGE = "block = b'x' * 200_000_000; "
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LARGE + 'import time; time.sleep(1)'!r}])"


def test_a_commands_output_time_and_memory_are_told() -> None:
    finished = finish((sys.executable, "-c", LARGE + "import time; time.sleep(0.5); print('done')"))

    assert finished.output == "done\n"
    assert 0.5 <= finished.seconds < 5
    assert 190 < finished.peak_rss_mb < 260


def test_memory_of_a_child_counts_beside_the_parents() -> None:
    assert 385 < finish((sys.executable, "-c", LARGE + PARENT)).peak_rss_mb < 480


def test_memory_of_the_caller_does_not_count() -> None:
    of_the_caller = b"x" * 300_000_000

    finished = finish((sys.executable, "-c", "import time; time.sleep(0.3)"))

    assert len(of_the_caller) > finished.peak_rss_mb * 2**20


def test_a_command_that_fails_is_quoted() -> None:
    with pytest.raises(CannotRun, match=r"ended with 3: no disk"):
        finish((sys.executable, "-c", "import sys; sys.stderr.write('no disk'); sys.exit(3)"))


def test_a_process_is_asked_to_end_with_the_block(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "try:\n    (place / 'started').touch(); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    (place / 'ended').touch()\n"
    )

    with (
        TemporaryFile() as output,
        running((sys.executable, "-c", program, str(tmp_path)), stdout=output, stderr=output) as process,
    ):
        while not (tmp_path / "started").exists():
            time.sleep(0.01)

    assert process.returncode == 0
    assert (tmp_path / "ended").exists()
