from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from ingest.blocks import Parsed
from ingest.limits import Limits
from ingest.parsers import parse
from ingest.splitter import split
from rag.values import Draft

WORD_OR_MARK = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")  # CJK characters count one by one
MARKS = 2  # begin and end of text, as BERT adds them


def count(texts: Sequence[str]) -> list[int]:
    return [MARKS + len(WORD_OR_MARK.findall(text)) for text in texts]


@pytest.fixture(scope="session")
def count_tokens() -> Callable[[Sequence[str]], list[int]]:
    return count


@pytest.fixture(scope="session")
def markdown() -> Callable[[str], Parsed]:
    return lambda source: parse(source.encode(), name="note.md")


@pytest.fixture(scope="session")
def chunks_of() -> Callable[..., list[Draft]]:
    def chunks(source: str, limits: Limits | None = None, name: str = "note.md") -> list[Draft]:
        return split(parse(source.encode(), name=name), count_tokens=count, limits=limits or Limits())

    return chunks
