"""The bare parts of a search: the model alone, and the statements that the legs send, on a plain connection."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg
from pgvector.psycopg import register_vector

from eval.bench.bare import Way, model
from eval.bench.noted import Notes, NotingDatabase
from rag.inference.onnx import QUERY_PREFIX
from rag.protocols import Embedder
from rag.ranking import DEPTH
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.settings import Settings
from rag.store.engine import Database
from rag.store.messages import AT_REST, Asked
from rag.store.schema import APP_ROLE
from rag.values import Question, TenantId

ALONE = Way(threads=1, intra_op=1, batch=1)
PLANS = {**AT_REST, "random_page_cost": "1.1"}  # as the service's connections


@dataclass(frozen=True, slots=True)
class Searched:
    """A question, and the statements of each leg that do the searching."""

    text: str
    dense: Sequence[Asked]
    postings: Sequence[Asked]


@dataclass(frozen=True, slots=True)
class Bare:
    """The milliseconds of a question's parts."""

    embed: float
    dense: float
    postings: float

    @property
    def total(self) -> float:
        """One after the other."""
        return self.embed + self.dense + self.postings

    @property
    def at_once(self) -> float:
        """The postings read while the question is embedded and its neighbours are searched for."""
        return max(self.embed + self.dense, self.postings)


async def listen(
    tenant: TenantId, database: Database, embedder: Embedder, questions: Sequence[Question]
) -> list[Searched]:
    """The statements that the legs send for each question."""
    notes = Notes()
    noting = NotingDatabase(database, notes)
    dense = DenseLeg(noting, {embedder.name: embedder}, exact_below=Settings.model_fields["exact_below"].default)
    lexical = LexicalLeg(noting)
    found = []
    for question in questions:
        await dense(tenant, question, DEPTH)
        vectors = notes.take("vector")
        await lexical(tenant, question, DEPTH)
        found.append(Searched(question.text, vectors, notes.take("terms")))
    return found


class BareSearch:
    """The bare parts, ready to be timed."""

    def __init__(self, folder: Path, dense: psycopg.Connection, postings: psycopg.Connection) -> None:
        """Embed with the model in *folder*; each statement has its connection, since one comes with settings."""
        self._embed = model(folder, ALONE)
        self._dense = dense
        self._postings = postings

    def times(self, searched: Searched) -> Bare:
        """What each part of the search takes now."""
        marks = [time.perf_counter()]
        self._embed([QUERY_PREFIX + searched.text])
        marks.append(time.perf_counter())
        _send(self._dense, searched.dense)
        marks.append(time.perf_counter())
        _send(self._postings, searched.postings)
        marks.append(time.perf_counter())
        return Bare(*((end - start) * 1000 for start, end in pairwise(marks)))


@contextmanager
def bare_search(tenant: TenantId, folder: Path, url: str, like: Searched) -> Iterator[BareSearch]:
    """The bare parts over the tenant's rows in the database at *url*, with the settings of the statements of *like*."""
    settings = (like.dense[0].settings, like.postings[0].settings)
    dense, postings = (plain_connection(tenant, url, of_leg) for of_leg in settings)
    with dense as for_dense, postings as for_postings:
        yield BareSearch(folder, for_dense, for_postings)


@contextmanager
def plain_connection(tenant: TenantId, url: str, settings: Mapping[str, str]) -> Iterator[psycopg.Connection]:
    """A connection of the driver's own, in the service's role, with the tenant and *settings* set for good."""
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        for name, value in {**PLANS, **settings, "role": APP_ROLE, "app.tenant_id": str(tenant)}.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        yield connection


def _send(connection: psycopg.Connection, sent: Sequence[Asked]) -> None:
    for statement in sent:
        connection.execute(statement.text, statement.parameters, binary=True).fetchall()
