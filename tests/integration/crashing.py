"""Workers and a PostgreSQL that are killed while they work, and replaced, or frozen."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag.store.embedded import EmbeddedPostgres
from rag.store.migration import migrate
from tests.conftest import REPOSITORY
from tests.directories import short_lived

LEASE_S = 3.0  # several times what a busy machine keeps a worker waiting
EMBEDDING_S = 0.03


class Machine:
    """A PostgreSQL below *home* and some workers on it."""

    def __init__(self, home: Path, log: Path, environment: dict[str, str], rng: random.Random) -> None:
        self.server = EmbeddedPostgres(home)
        self.log = log
        self._home = home
        self._environment = environment
        self._rng = rng
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stalled: list[threading.Timer] = []

    def start_worker(self) -> None:
        command = [sys.executable, "-m", "tests.integration.crash_worker", self.server.url]
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [*command, str(LEASE_S), str(EMBEDDING_S)],
                cwd=REPOSITORY,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._workers.append(worker)

    def kill(self, what: str) -> None:
        """Kill -9 of one `worker`, of one `backend`, or of all of `postgres`; `stall` stops a worker past its lease."""
        getattr(self, f"_kill_{what}")()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The PostgreSQL takes connections, as the kernel does for it, and says nothing while the block runs."""
        postmaster = self._postmaster()
        os.kill(postmaster, signal.SIGSTOP)
        stopped = [postmaster, *self._backends()]  # it starts no other one now
        try:
            for pid in stopped:
                _signal(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                _signal(pid, signal.SIGCONT)

    def stop_workers(self) -> list[int]:
        """What the workers ended with, once asked to end."""
        self._wake_all()
        for worker in self._workers:
            assert _is_ready(worker, 30)
            worker.terminate()
        return [worker.wait(20) for worker in self._workers]

    def remove(self) -> None:
        """End all of it, whatever state it is in."""
        self._wake_all()
        for worker in self._workers:
            _end(worker)
        for pid in (*self._backends(), self._postmaster()):
            _kill(pid)
        self.server.stop()

    def _kill_worker(self) -> None:
        worker = self._ready_worker()
        self._workers.remove(worker)
        _end(worker)
        self.start_worker()

    def _ready_worker(self) -> subprocess.Popen[bytes]:
        """One that has begun to work: killing others proves nothing."""
        while True:
            for worker in self._rng.sample(self._workers, len(self._workers)):
                if _is_ready(worker, 0.05):
                    return worker

    def _kill_stall(self) -> None:
        worker = self._ready_worker()
        worker.send_signal(signal.SIGSTOP)
        timer = threading.Timer(1.3 * LEASE_S, worker.send_signal, (signal.SIGCONT,))
        timer.start()
        self._stalled.append(timer)

    def _wake_all(self) -> None:
        for timer in self._stalled:
            timer.join()

    def _kill_postgres(self) -> None:
        for pid in (self._postmaster(), *self._backends()):
            _kill(pid)
        while self.server.accepts():  # a child that is not dead yet
            time.sleep(0.01)
        self.server.start()

    def _kill_backend(self) -> None:
        """The postmaster then ends every other backend, and recovers."""
        if clients := self._backends("[local]"):
            _kill(self._rng.choice(clients))

    def _postmaster(self) -> int:
        return int((self._home / "postgres" / "postmaster.pid").read_text().split()[0])

    def _backends(self, title: str = "") -> list[int]:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        parent = str(self._postmaster())
        return [int(row[0]) for row in rows if row[1] == parent and title in row[-1]]


def _is_ready(worker: subprocess.Popen[bytes], timeout_s: float) -> bool:
    assert worker.stdout is not None
    return bool(select.select([worker.stdout], [], [], timeout_s)[0])  # what it wrote is left there: it stays ready


def _end(worker: subprocess.Popen[bytes]) -> None:
    with worker:  # closes its pipe
        worker.kill()


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL)


def _signal(pid: int, which: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, which)


@contextmanager
def running_machine(environment: dict[str, str], rng: random.Random) -> Iterator[Machine]:
    """A machine whose PostgreSQL runs and has the schema; it is gone afterwards."""
    with short_lived("rag-machine-") as home:
        machine = Machine(home / "data", home / "workers.log", environment, rng)
        machine.server.start()
        try:
            migrate(machine.server.url)
            yield machine
        finally:
            machine.remove()
