"""A chat model that costs nothing: `python -m eval.bench.model_server WORDS` streams the same answer at once, for ever.

It speaks OpenAI's dialect over HTTP/1.1 with kept connections, a frame a word, each sent alone as a provider does. It
prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping

MODEL = "nothing"
WORD = "word "
PROMPT_TOKENS = 100


def frames(words: int) -> list[bytes]:
    """The answer's chunks as they go over the wire, the end of the body last."""
    deltas = [_delta({"role": "assistant", "content": ""}), *[_delta({"content": WORD})] * words]
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": words, "total_tokens": PROMPT_TOKENS + words}
    bodies = [*deltas, _delta({}, finish_reason="stop"), {**_FRAME, "choices": [], "usage": usage}]
    lines = [f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode() for body in bodies] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%b\r\n" % (len(line), line) for line in lines] + [b"0\r\n\r\n"]


async def serve(words: int) -> None:
    """Answer on a free port of this machine until standard input ends."""
    answer = frames(words)

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await _read_request(reader):
                writer.write(HEAD)
                for frame in answer:
                    writer.write(frame)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    # asyncio turns Nagle's algorithm off only where the protocol is named; with it, the second frame takes 40 ms longer
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    async with await asyncio.start_server(answering, sock=listening):
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_FRAME = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}


def _delta(delta: Mapping[str, str], finish_reason: str | None = None) -> dict[str, object]:
    return {**_FRAME, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], "usage": None}


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
