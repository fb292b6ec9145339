from __future__ import annotations

import pytest

from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.store.engine import Database
from tests.fakes import embedders
from tests.integration.reading import Legs


@pytest.fixture
def legs(database: Database) -> Legs:
    return Legs(DenseLeg(database, embedders(), exact_below=10_000), LexicalLeg(database))
