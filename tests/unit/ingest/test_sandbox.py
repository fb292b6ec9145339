from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ingest.parsers import parse
from ingest.sandbox import Sandbox
from rag.errors import InvalidInput, UnsupportedFormat

MARKDOWN = b"---\ntags: [a, b]\nvalid_from: 2026-01-01\n---\n# Fees\n\n| A | B |\n|---|---|\n| 1 | 2 |\n"


@pytest_asyncio.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(timeout_s=20, max_memory_bytes=512 * 1024**2) as opened:
        yield opened


async def child_of(sandbox: Sandbox) -> int:
    await sandbox.parse(b"# A", "a.md")
    assert sandbox._child is not None
    return sandbox._child.pid


async def test_a_document_is_the_same_as_parsed_here(sandbox: Sandbox) -> None:
    assert await sandbox.parse(MARKDOWN, "fees.md") == parse(MARKDOWN, name="fees.md")


async def test_refusals_keep_their_class_and_text(sandbox: Sandbox) -> None:
    with pytest.raises(UnsupportedFormat, match=r"a\.xyz"):
        await sandbox.parse(b"?", "a.xyz")
    with pytest.raises(InvalidInput, match=r"a\.md: This file contains NUL bytes"):
        await sandbox.parse(b"a\0b", "a.md")


async def test_a_document_that_needs_too_much_memory_is_refused_and_the_next_is_read(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidInput, match="more memory"):
        await sandbox.parse(b"# A\n\n" + b"word " * 12_000_000, "large.md")

    assert (await sandbox.parse(b"# A", "a.md")).text == "A"


async def test_a_child_that_dies_is_that_documents_failure(sandbox: Sandbox) -> None:
    pid = await child_of(sandbox)
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(InvalidInput, match="made its parser crash"):
        await sandbox.parse(b"# A", "a.md")

    assert (await sandbox.parse(b"# A", "a.md")).text == "A"


async def test_a_child_that_hangs_is_ended_in_time() -> None:
    async with Sandbox(timeout_s=1) as sandbox:
        pid = await child_of(sandbox)
        os.kill(pid, signal.SIGSTOP)

        with pytest.raises(InvalidInput, match="was not read within 1 s"):
            await sandbox.parse(b"# A", "a.md")

        assert (await sandbox.parse(b"# A", "a.md")).text == "A"
        assert not os.path.exists(f"/proc/{pid}")


async def test_documents_asked_for_at_once_are_not_mixed_up(sandbox: Sandbox) -> None:
    texts = [f"Document {n}." for n in range(20)]

    parsed = await asyncio.gather(*(sandbox.parse(text.encode(), f"{text}.txt") for text in texts))

    assert [one.text for one in parsed] == texts


async def test_the_child_knows_no_secret_of_ours(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:secret@db/rag")

    pid = await child_of(sandbox)

    with open(f"/proc/{pid}/environ", "rb") as file:
        assert b"secret" not in file.read()
