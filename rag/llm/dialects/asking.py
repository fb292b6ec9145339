"""What a request is, before it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from rag.calls import ChatRequest

VERSION = re.compile(r"/v\d\w*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in a provider's own words: the whole address, what goes into the body, and headers with the key."""

    url: str
    body: dict[str, object]
    headers: dict[str, str]


def joined(url: str, path: str, *, version: str = "", query: str = "") -> str:
    """*url* with *version* and *path* after its own, and *query* after its own.

    Both ways to write an address are met with: with a version at its end, which then counts, and without.
    """
    parts = urlsplit(url)
    before = parts.path.rstrip("/")
    if VERSION.search(before) or before.endswith(version):
        version = ""
    queries = "&".join(filter(None, [parts.query, query]))
    return urlunsplit((parts.scheme, parts.netloc, before + version + path, queries, ""))


def system_text(request: ChatRequest) -> str:
    """The instructions, for a dialect that has them beside the conversation."""
    return "\n\n".join(message.text for message in request.messages if message.role == "system")
