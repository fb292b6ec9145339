"""A throwaway RAG_HOME with a database of its own: commands in it, and a service over it."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from eval.bench.processes import Finished, finish, last_words, running
from eval.errors import CannotRun
from eval.service import RAG, REQUEST_TIMEOUT_S, START_TIMEOUT_S

# whatever the caller has set: the bare model is this one, and the database is the home's own
NOT_TAKEN_OVER = ("DATABASE_URL", "RAG_MIGRATION_DATABASE_URL", "RAG_EMBEDDER", "RAG_RERANKER", "RAG_LOG_LEVEL")
_SERVES = re.compile(rb"serving (http://\S+)")
_MODEL = re.compile(r"^ok +(.+)/bge_small_en/model\.onnx$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Home:
    """An empty folder for everything of a run, and the models."""

    folder: Path
    models: Path

    @property
    def embedder(self) -> Path:
        """The folder of the embedding model."""
        return self.models / "bge_small_en"

    @property
    def reranker(self) -> Path:
        """The folder of the cross-encoder."""
        return self.models / "reranker_en"

    def rag(self, *arguments: str) -> Finished:
        """The end of `rag ARGUMENTS` in this home.

        Raises CannotRun when it fails.
        """
        return finish(self._command(*arguments))

    @contextmanager
    def service(self, tenant: str) -> Iterator[httpx2.Client]:
        """A client with a key of *tenant*, to a service over this home that ingests nothing."""
        headers = {"Authorization": f"Bearer {self.key(tenant, 'query')}"}
        with (
            self.serving("--no-worker") as url,
            httpx2.Client(base_url=url, headers=headers, timeout=REQUEST_TIMEOUT_S) as http,
        ):
            yield http

    @contextmanager
    def serving(self, *options: str) -> Iterator[str]:
        """The address of a service over this home, with its own worker unless *options* say otherwise."""
        with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as log:
            command = self._command("serve", "--port", "0", *options)
            with running(command, stdout=output, stderr=log.file) as process:
                yield _url(process, Path(log.name))

    def key(self, tenant: str, scopes: str) -> str:
        """A new key of *tenant*."""
        return self.rag("key", "create", "--tenant", tenant, "--scopes", scopes).output.strip()

    def _command(self, *arguments: str) -> tuple[str, ...]:
        cleared = (part for name in NOT_TAKEN_OVER for part in ("-u", name))
        own = (f"RAG_HOME={self.folder / 'home'}", f"RAG_MODELS_DIR={self.models}")
        return ("/usr/bin/env", *cleared, *own, *RAG, *arguments)


@contextmanager
def throwaway_home() -> Iterator[Home]:
    """A home that is gone afterwards, with the models of the current one.

    Raises CannotRun when they are missing.
    """
    models = _models()
    with tempfile.TemporaryDirectory(prefix="rag-bench-") as folder:
        yield Home(Path(folder), models)


def _models() -> Path:
    # the program knows where they are: RAG_MODELS_DIR, or below RAG_HOME
    if found := _MODEL.search(finish((*RAG, "models", "list")).output):
        return Path(found[1]).absolute()
    raise CannotRun("`rag models list` names no embedding model; run `rag models pull`")


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_at and process.poll() is None:
        if found := _SERVES.search(log.read_bytes()):
            return found[1].decode()
        time.sleep(0.1)
    raise CannotRun(f"`rag serve` did not start: {last_words(log.read_bytes())}")
