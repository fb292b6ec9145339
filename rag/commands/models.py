"""`rag models`."""

from __future__ import annotations

import argparse

from rag.commands.opened import settings, show
from rag.inference.model_store import DEFAULT_FILES, state
from rag.inference.model_store import pull as fetch
from rag.llm.local import serve_chat
from rag.telling import counted


def pull(_: argparse.Namespace) -> None:
    """Fetch the files that are missing."""
    models = settings().models
    number = fetch(models)
    show(f"{counted(number, 'file')} fetched to {models}" if number else f"every file is in {models} already")


def files(_: argparse.Namespace) -> int:
    """0 when every file is as expected, else 1; each is shown."""
    models = settings().models
    states = {file.path: state(models, file) for file in DEFAULT_FILES}
    for path, found in states.items():
        show(f"{found:10} {models / path}")
    if all(found == "ok" for found in states.values()):
        return 0
    show("`rag models pull` fetches what is not ok")
    return 1


def chat(arguments: argparse.Namespace) -> None:
    """Serve the chat model of this machine until a signal."""
    serve_chat(settings().models, host=arguments.host, port=arguments.port)
