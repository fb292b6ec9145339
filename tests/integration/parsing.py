"""Files through the real child process, a sound one after each, so that what one leaves behind shows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ingest.blocks import Parsed
from ingest.sandbox import Sandbox
from rag.errors import CallerError, InvalidInput, UnsupportedFormat

NEIGHBOUR = b"# Neighbour\n\nStill read."


async def outcomes(sandbox: Sandbox, files: Iterable[tuple[str, bytes]]) -> list[Parsed | CallerError]:
    """What became of each file; each neighbour was read."""
    found: list[Parsed | CallerError] = []
    names = []
    for name, data in files:
        names.append(name)
        try:
            found.append(await sandbox.parse(data, name))
        except (InvalidInput, UnsupportedFormat) as refused:
            found.append(refused)
        neighbour = await sandbox.parse(NEIGHBOUR, "neighbour.md")
        assert neighbour.text == "Neighbour\n\nStill read."
    assert all(isinstance(one, Parsed) or name in one.detail for name, one in zip(names, found, strict=True))
    return found


def is_as_expected(outcome: Parsed | CallerError, expected: str) -> bool:
    """Whether the document's text or the refusal's sentence has the pattern; a refusal's begins with `refused:`."""
    refusal = expected.removeprefix("refused:")
    if isinstance(outcome, Parsed):
        return refusal == expected and re.search(expected, outcome.text) is not None
    return refusal != expected and re.search(refusal.strip(), outcome.detail) is not None
