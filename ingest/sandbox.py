"""Parsing in a child process: whatever a file does to its parser, the job goes on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import datetime
from typing import Any

from ingest.blocks import Block, Parsed
from ingest.parse_child import LENGTH
from rag.errors import CallerError, InvalidInput, UnsupportedFormat
from rag.values import Facets

TIMEOUT_S = 120.0  # a large PDF with many tables takes a minute
MAX_MEMORY_BYTES = 2 * 1024**3
SENT_BYTES = 1024 * 1024
_REFUSALS: dict[str, type[CallerError]] = {kind.__name__: kind for kind in (InvalidInput, UnsupportedFormat)}


class Sandbox:
    """One child process that parses one document after another; a child that hangs or dies is replaced."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        """Allow each document *timeout_s* and the child *max_memory_bytes* of address space."""
        self._timeout_s = timeout_s
        self._max_memory_bytes = max_memory_bytes
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Sandbox:
        """The sandbox; the child starts with the first document."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the child."""
        await self.close()

    async def parse(self, data: bytes, name: str, content_type: str | None = None) -> Parsed:
        """The document in *data*.

        Raises InvalidInput or UnsupportedFormat for one that cannot be read, whatever the reason.
        """
        async with self._turn:
            try:
                answer = await asyncio.wait_for(self._ask(data, name, content_type), self._timeout_s)
            except TimeoutError as exc:
                await self.close()
                raise InvalidInput(
                    f"{name} was not read within {self._timeout_s:g} s; split it, or save it in a simpler form"
                ) from exc
            except (asyncio.IncompleteReadError, ConnectionError) as exc:
                await self.close()
                raise InvalidInput(f"{name} made its parser crash; save it again, or in another format") from exc
            except asyncio.CancelledError:
                await self.close()  # its answer would be taken for the next document's
                raise
        return _parsed(answer, name)

    async def close(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            if child.returncode is None:
                child.kill()
            await child.wait()

    async def _ask(self, data: bytes, name: str, content_type: str | None) -> Any:
        child = self._child or await self._start()
        assert child.stdin is not None  # noqa: S101 - both are pipes
        assert child.stdout is not None  # noqa: S101
        request = {"name": name, "content_type": content_type, "size": len(data)}
        child.stdin.write(json.dumps(request).encode() + b"\n")
        # both at once: a child that writes before it has read all would wait for us, and we for it
        _, answer = await asyncio.gather(_send(child.stdin, data), _read(child.stdout))
        return json.loads(answer)

    async def _start(self) -> asyncio.subprocess.Process:
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ingest.parse_child", str(self._max_memory_bytes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)},  # no keys, no address of a database
            start_new_session=True,  # Ctrl-C is for us; we end the child
        )
        return self._child


async def _send(stream: asyncio.StreamWriter, data: bytes) -> None:
    for at in range(0, len(data), SENT_BYTES):  # at once, the whole of it would be copied
        stream.write(data[at : at + SENT_BYTES])
        await stream.drain()


async def _read(stream: asyncio.StreamReader) -> bytes:
    (size,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
    return await stream.readexactly(size)


def _parsed(answer: Any, name: str) -> Parsed:
    if "refused" in answer:
        kind, detail = answer["refused"]
        raise _REFUSALS.get(kind, InvalidInput)(detail)
    if "failed" in answer:
        raise InvalidInput(f"{name} cannot be read: {answer['failed']}")
    parsed = answer["parsed"]
    blocks = (Block(**{**block, "rows": tuple(map(tuple, block["rows"]))}) for block in parsed["blocks"])
    facets = parsed["facets"]
    moments = {key: facets[key] and datetime.fromisoformat(facets[key]) for key in ("valid_from", "valid_to")}
    typed = {**facets, **moments, "tags": tuple(facets["tags"]), "acl": tuple(facets["acl"])}
    return Parsed(parsed["text"], tuple(blocks), Facets(**typed), tuple(parsed["warnings"]))
