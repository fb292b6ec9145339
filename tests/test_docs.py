"""The README says what the code does: every setting, error code, command and route is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from rag.errors import RagError
from rag.llm.failures import Reason
from rag.llm.reasons import Skip
from rag.settings import PREFIX, Settings
from rag.values import RerankReason

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def readme() -> str:
    return README.read_text(encoding="utf-8")


def codes(kind: type[RagError] = RagError) -> Iterator[str]:
    yield kind.code
    for child in kind.__subclasses__():
        yield from codes(child)


@pytest.mark.parametrize("name", [n for n in Settings.model_fields if n != "database_url"])
def test_every_setting_is_in_the_readme(readme: str, name: str) -> None:
    assert f"`{PREFIX}{name.upper()}`" in readme


def test_the_database_setting_is_in_the_readme(readme: str) -> None:
    assert "`DATABASE_URL`" in readme


@pytest.mark.parametrize("code", sorted({*codes(), "invalid_request", "method_not_allowed"}))
def test_every_error_code_is_in_the_readme(readme: str, code: str) -> None:
    assert f"`{code}`" in readme


@pytest.mark.parametrize("reason", get_args(RerankReason))
def test_every_reason_for_hits_that_are_not_reranked_is_in_the_readme(readme: str, reason: str) -> None:
    assert f"`{reason}`" in readme


@pytest.mark.parametrize("reason", sorted({*get_args(Reason), *get_args(Skip)}))
def test_every_reason_of_what_was_tried_is_in_the_readme(readme: str, reason: str) -> None:
    assert f"`{reason}`" in readme
