"""The child process that parses: reads requests from standard input, answers on standard output.

A request is one JSON line (`name`, `content_type`, `size`) and `size` bytes; an answer is four bytes of length, and
JSON.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
from dataclasses import asdict
from datetime import datetime
from typing import BinaryIO

from ingest.parsers import parse
from rag.errors import CallerError

LENGTH = struct.Struct(">I")
MAX_TEXT_CHARS = 50_000_000  # an hour of embedding; what is larger would fill the memory of who asked, too


def main(max_memory_bytes: int) -> None:
    """Answer requests until standard input ends, with no more memory than allowed and no file or process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["size"])
        _send(answers, _answer(request["name"], request["content_type"], data))


def _answer(name: str, content_type: str | None, data: bytes) -> bytes:
    try:
        parsed = parse(data, name=name, content_type=content_type)
        if len(parsed.text) > MAX_TEXT_CHARS:
            return json.dumps(
                {"failed": f"it has over {MAX_TEXT_CHARS // 10**6} million characters; split it"}
            ).encode()
        return json.dumps({"parsed": asdict(parsed)}, default=_moment).encode(errors="surrogatepass")
    except CallerError as exc:
        return json.dumps({"refused": [type(exc).__name__, exc.detail]}).encode()
    except MemoryError:
        return json.dumps({"failed": "it needs more memory than a document may take; split it"}).encode()
    except RecursionError:
        return json.dumps({"failed": "it is nested too deeply; save it in a simpler form"}).encode()
    except Exception as exc:  # noqa: BLE001 - a parser's fault is the document's failure, not the job's
        return json.dumps(
            {"failed": f"its parser failed ({type(exc).__name__}); save it again, or in another format"}
        ).encode()


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no part of a parsed document")


def _send(answers: BinaryIO, body: bytes) -> None:
    answers.write(LENGTH.pack(len(body)) + body)
    answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
