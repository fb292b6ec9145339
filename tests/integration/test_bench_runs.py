"""The benchmarks of retrieval on a few hundred chunks: whole runs, and the parts that only a database shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import TupleRow

from eval.bench import search, synthetic
from eval.bench.asking import KnownVectors, draw_queries
from eval.bench.bare_search import listen, plain_connection
from eval.bench.database import Server, server_in
from eval.bench.noted import Notes, NotingDatabase
from eval.bench.program import main
from eval.bench.synthetic import NOW, Corpus, Lexicon, Space, invented
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg, query_terms
from rag.store.indexes import index_state
from rag.values import Question, Scope, tenant_id

SCOPE = Scope(frozenset(), NOW)


@pytest.fixture(scope="module")
def bench_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_in(tmp_path_factory.mktemp("bench")) as server:
        yield server


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(Lexicon(invented(), 300), Space.random(1), seed=1)


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_small_tenants_are_searched_exactly_under_every_filter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "PART", 200)  # written in two parts, then compacted

    code = main(["filter", "--sizes", "60", "300", "--queries", "3"])

    figures = last_line(capsys)
    assert code == 0
    assert (figures["min_recall"], figures["rows_complete"], figures["lexical_exact"]) == (1.0, True, True)
    assert figures["cells"] == 2 * (9 + 4)
    assert figures["questions"] == 3 * figures["cells"]


def test_a_small_tenant_is_measured_alone_and_among_others(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["scale", "--sizes", "50", "--tenants", "3", "--small", "30", "--queries", "4"])

    figures = last_line(capsys)
    assert code == 0
    assert figures["small_tenant_ratio"] > 0
    assert figures["p50_ms_by_chunks"].keys() == {"50"}


@pytest.mark.quiet
def test_the_running_service_is_measured_beside_its_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.setattr(search, "WARM_UP", 1)
    monkeypatch.setattr(search, "CENTRES", 20)
    monkeypatch.setenv("RAG_MODELS_DIR", str(models))

    code = main(["search", "--chunks", "100", "--requests", "6"])

    figures = last_line(capsys)
    assert code == 0
    assert figures["requests"] == 6
    assert 0 < figures["embed_p50_ms"] < figures["bare_p50_ms"]
    assert figures["p50_ms"] > figures["bare_at_once_p50_ms"] / 2
    assert figures["p50_ratio"] == pytest.approx(figures["p50_ms"] / figures["bare_p50_ms"], abs=0.01)


async def test_statements_noted_from_the_legs_find_on_a_plain_connection_what_the_legs_find(
    bench_server: Server, corpus: Corpus
) -> None:
    embedder = KnownVectors()
    queries = draw_queries(corpus, 3, seed=2)
    embedder.learn(queries)
    questions = [Question(query.text, SCOPE) for query in queries]
    async with bench_server.new("noted") as store:
        tenant = await store.fill("one", corpus, corpus.parts(120), embedder=embedder.name)
        searched = await listen(tenant, store.database, embedder, questions)
        dense = DenseLeg(store.database, {embedder.name: embedder}, exact_below=10_000)

        with plain_connection(tenant, bench_server.url_of("noted"), {}) as connection:
            for question, statements in zip(questions, searched, strict=True):
                found = [ranked.content for ranked in (await dense(tenant, question, 50)).ranked]
                blocks = rows(connection, statements.postings)

                assert [row[0] for row in rows(connection, statements.dense)] == found
                assert {row[0] for row in blocks} == set(query_terms(question.text, ["en"]))
        # so small a tenant is searched without the graph
        assert [dict(asked.settings) for statements in searched for asked in statements.dense] == [{}, {}, {}]


def rows(connection: psycopg.Connection, statements: Any) -> list[TupleRow]:
    [statement] = statements
    return connection.execute(statement.text, statement.parameters, binary=True).fetchall()


async def test_a_graph_built_in_one_go_is_what_the_dense_leg_walks(bench_server: Server, corpus: Corpus) -> None:
    embedder = KnownVectors()
    [query] = draw_queries(corpus, 1, seed=2)
    embedder.learn([query])
    question = Question(query.text, SCOPE)
    async with bench_server.new("graph") as store:
        tenant = await store.fill("large", corpus, corpus.parts(300), embedder=embedder.name)
        await store.fill("small", corpus, corpus.parts(40), embedder=embedder.name)

        store.graph(above=100)
        store.settle()

        assert [row[0] for row in store.owner.execute("SELECT tenant_id FROM indexes WHERE graphed")] == [tenant]
        [[vectors]] = store.owner.execute("SELECT count(*) FROM neighbours").fetchall()
        assert vectors == 300
        notes = Notes()
        noting = NotingDatabase(store.database, notes)
        by_graph = await DenseLeg(noting, {embedder.name: embedder}, exact_below=0)(tenant, question, 50)
        exactly = await DenseLeg(store.database, {embedder.name: embedder}, exact_below=10_000)(tenant, question, 50)
        [asked] = notes.take("vector")  # the graph gave enough
        assert asked.settings["hnsw.iterative_scan"] == "strict_order"
        assert [ranked.content for ranked in by_graph.ranked] == [ranked.content for ranked in exactly.ranked]


async def test_what_came_in_parts_is_compacted_and_counted(
    bench_server: Server, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "PART", 50)
    async with bench_server.new("parts") as store:
        tenant = await store.fill("one", corpus, corpus.parts(120), embedder="any")

        async with store.database.tenant(tenant) as tx:
            state = await index_state(tx)
        [[blocks, terms]] = store.owner.execute("SELECT count(*), count(DISTINCT term) FROM postings").fetchall()
        [[checked]] = store.owner.execute(
            "SELECT count(*) FROM embeddings e JOIN chunks USING (tenant_id, ord) JOIN documents USING (document_id)"
        ).fetchall()
        assert tenant == tenant_id("one")
        assert (state.posted, state.writes, blocks) == (120, 0, terms)
        assert checked == 120
        assert (await LexicalLeg(store.database)(tenant, Question(corpus.text([0, 1]), SCOPE), 50)).ranked != ()
