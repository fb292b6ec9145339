"""Sound files, cut and altered: whatever is left of them is read or refused, and no parser falls over it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from ingest.blocks import Parsed
from ingest.sandbox import Sandbox
from tests.integration.parsing import outcomes
from tests.samples import SAMPLES, members_of, zipped

CUTS = 12
MUTATIONS = 30
ZIPPED = (".docx", ".pptx", ".xlsx", ".epub")


@pytest_asyncio.fixture(scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(timeout_s=30) as opened:
        yield opened


def cut(data: bytes) -> Iterator[bytes]:
    yield from (data[: len(data) * n // CUTS] for n in range(1, CUTS))
    yield from (data[:-1], data[1:], data[len(data) // 3 :])


def mutated(data: bytes, rng: random.Random) -> bytes:
    """*data* with bytes flipped, put in, left out or repeated, in one to four places."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at:at] = rng.choice(
                    [b"\0", b"\xff", b"<", b"&", b'"', b"[", b"-1", b"99999999999", b"\xed\xa0\x80"]
                )
            case 2:
                del changed[at : at + rng.randint(1, 20)]
            case _:
                changed[at:at] = changed[at : at + rng.randint(1, 50)]
    return bytes(changed)


def mutations(name: str) -> Iterator[bytes]:
    """Changed files; of an archive every second is changed within, so that it unpacks."""
    rng = random.Random(name)
    for n in range(MUTATIONS):
        if not name.endswith(ZIPPED) or n % 2:
            yield mutated(SAMPLES[name], rng)
            continue
        members = members_of(SAMPLES[name])
        chosen = rng.choice([member for member, content in members.items() if content])
        content = members[chosen]
        assert isinstance(content, bytes)
        yield zipped({**members, chosen: mutated(content, rng)})


def is_sound(document: Parsed) -> bool:
    spans = all(0 <= block.start < block.end <= len(document.text) for block in document.blocks)
    return spans and all(document.of(block).strip() for block in document.blocks)


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_file_cut_anywhere_is_read_as_far_as_it_goes_or_refused(sandbox: Sandbox, name: str) -> None:
    found = await outcomes(sandbox, ((name, data) for data in cut(SAMPLES[name])))

    assert [one.detail for one in found if not isinstance(one, Parsed) and _has_no_reason(one.detail)] == []
    assert all(is_sound(one) for one in found if isinstance(one, Parsed))


@pytest.mark.parametrize("name", SAMPLES)
async def test_an_altered_file_is_read_or_refused_with_a_reason(sandbox: Sandbox, name: str) -> None:
    found = await outcomes(sandbox, ((name, data) for data in mutations(name)))

    assert [one.detail for one in found if not isinstance(one, Parsed) and _has_no_reason(one.detail)] == []
    assert all(is_sound(one) for one in found if isinstance(one, Parsed))


def _has_no_reason(detail: str) -> bool:
    return "parser" in detail or "object at 0x" in detail
