"""Documents through the pipeline, questions through both legs with the real embedder: what words find and do not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from ingest.pipeline import Pipeline, Source
from rag.inference.onnx import OnnxEmbedder
from rag.ranking import Ranking
from rag.retrieval.dense import DenseLeg
from rag.retrieval.lexical import LexicalLeg
from rag.retrieval.retriever import Retriever
from rag.store.engine import Database
from rag.values import Hit, TenantId
from tests.conftest import MakeTenant
from tests.fakes import FakeReranker, parse_directly
from tests.integration.corpus import question


@dataclass(frozen=True)
class Corpus:
    """A tenant's documents and the searches over them, not reranked."""

    retriever: Retriever
    tenant: TenantId

    async def hits(self, text: str) -> tuple[Hit, ...]:
        return (await self.retriever.retrieve(self.tenant, replace(question(text, top_k=100), rerank=False))).hits

    async def found(self, text: str) -> list[str]:
        """The documents that either leg finds, best first."""
        return [hit.chunk.external_id for hit in await self.hits(text)]

    async def by_words(self, text: str) -> list[str]:
        """The documents that the lexical leg finds, best first."""
        ranked = sorted((hit.lexical.rank, hit.chunk.external_id) for hit in await self.hits(text) if hit.lexical)
        return [name for _, name in ranked]


Ingest = Callable[[Mapping[str, str]], Awaitable[Corpus]]


@pytest.fixture
def ingest(database: Database, make_tenant: MakeTenant, embedder: OnnxEmbedder) -> Ingest:
    """Makes a tenant of plain texts; a name that starts with a language and a stroke, de/x, is in that language."""
    named = {embedder.name: embedder}
    retriever = Retriever(
        database,
        dense=DenseLeg(database, named, exact_below=10_000),
        lexical=LexicalLeg(database),
        reranker=FakeReranker(),
        ranking=Ranking(rerank_top=0, rerank_deadline_s=1.0, rerank_weight=1.0, fused_weight=1.0),
    )

    async def ingested(texts: Mapping[str, str]) -> Corpus:
        tenant = await make_tenant()
        sources = [
            Source(name, text.encode(), "text/plain", {"lang": name.split("/")[0] if "/" in name else "en"})
            for name, text in texts.items()
        ]
        results = await Pipeline(database, named, parse_directly).ingest(tenant, sources)
        assert {result.state for result in results} == {"done"}
        return Corpus(retriever, tenant)

    return ingested


async def test_the_parts_of_a_name_find_it_and_the_whole_name_comes_first(ingest: Ingest) -> None:
    corpus = await ingest(
        {
            "camel": "Use fetchOrderById before loadXMLDocument.",
            "snake": "cancel_open_order closes it.",
            "dotted": "The method store.fetchOrder() is older.",
            "other": "The sea is calm.",
        }
    )

    assert set(await corpus.by_words("order")) == {"camel", "snake", "dotted"}
    assert await corpus.by_words("load xml") == ["camel"]
    for asked, first in (("fetchOrderById", "camel"), ("fetchorderbyid", "camel"), ("CANCEL_OPEN_ORDER", "snake")):
        assert (await corpus.by_words(asked))[0] == (await corpus.found(asked))[0] == first
    assert (await corpus.by_words("fetchorder"))[0] == "dotted"


async def test_marks_that_belong_to_a_name_tell_documents_apart(ingest: Ingest) -> None:
    corpus = await ingest(
        {
            "cpp": "The engine is written in C++.",
            "net": "Needs the .NET framework.",
            "sharp": "The plug-in is in C#, with tests.",
            "vitamin": "Fish nets, and plenty of vitamin C.",
            "old": "Ships with v4.0.1 of the driver.",
            "new": "Ships with v4.0.2 of the driver.",
        }
    )

    wanted = {"C++": "cpp", ".NET": "net", "C#": "sharp", "v4.0.1": "old", "v4.0.2?": "new"}
    for asked, first in wanted.items():
        assert (await corpus.by_words(asked))[0] == (await corpus.found(asked))[0] == first
    assert await corpus.by_words("C++") == ["cpp"]


@pytest.mark.parametrize("asked", ["E-7710", "e-7710?", "(E-7710)", "«E-7710»,", "E-7710.", "E-7710:", "E-7710;"])
async def test_an_identifier_is_found_whatever_mark_follows_it(ingest: Ingest, asked: str) -> None:
    corpus = await ingest({"that": "Valve stuck (E-7710): open it by hand.", "next": "Sensor lost E-7711."})

    assert (await corpus.by_words(asked))[0] == "that"


async def test_a_word_of_half_the_documents_still_finds_them_and_no_others(ingest: Ingest) -> None:
    corpus = await ingest(
        {"a": "restart the server", "b": "restart the scanner", "c": "old contracts", "d": "hotel rules"}
    )

    hits = [hit.lexical for hit in await corpus.hits("restart") if hit.lexical]

    assert sorted(await corpus.by_words("restart")) == ["a", "b"]
    assert all(ranked.score > 0 for ranked in hits)
    assert sorted((await corpus.found("restart"))[:2]) == ["a", "b"]


@pytest.mark.parametrize("asked", ["qqzzyy", "the", "to be or not to be", "???", "'", "\\", "... -- !!"])
async def test_what_no_text_has_is_left_to_the_meaning(ingest: Ingest, asked: str) -> None:
    corpus = await ingest(
        {"play": "To be or not to be is the line.", "band": "The who are a band.", "money": "Budget."}
    )

    assert await corpus.by_words(asked) == []
    assert len(await corpus.found(asked)) == 3  # the dense leg's


@pytest.mark.parametrize(
    "asked",
    ["What's the discount?", "team:billing discount", "discount & | ! ( b", "discount <-> :*", "\\discount\\",
     "a' OR 1=1 --discount", "price < 5 > 2 discount", "%discount%", "discount\N{ZERO WIDTH SPACE}"],
)  # fmt: skip
async def test_query_syntax_is_read_as_words(ingest: Ingest, asked: str) -> None:
    corpus = await ingest({"yes": "A discount for large orders", "no": "Opening hours"})

    assert await corpus.by_words(asked) == ["yes"]


@pytest.mark.parametrize("langs", [("ja", "zh", "ko", "th"), ("en", "en", "en", "en")])
async def test_a_word_inside_a_run_without_blanks_is_found(ingest: Ingest, langs: tuple[str, ...]) -> None:
    texts = {
        "ja": "請求書の再発行手順を説明します。", "zh": "年假申请需要经理批准。", "ko": "휴가신청을 먼저 승인받는다.",
        "th": "วันหยุดพักร้อนประจำปีของพนักงาน",
    }  # fmt: skip
    names = {script: f"{lang}/{script}" for script, lang in zip(texts, langs, strict=True)}
    corpus = await ingest({names[script]: text for script, text in texts.items()} | {"latin": "Reissue an invoice."})

    wanted = {"再発行": "ja", "請求書": "ja", "经理": "zh", "年假": "zh", "휴가": "ko", "승인": "ko", "พักร้อน": "th"}
    for asked, script in wanted.items():
        assert await corpus.by_words(asked) == [names[script]], asked
        assert (await corpus.found(asked))[0] == names[script], asked


async def test_accents_count_neither_in_the_question_nor_in_the_text(ingest: Ingest) -> None:
    corpus = await ingest(
        {
            "composed": "Procédure générale de crédit",
            "pieces": "proc dure g n rale",
            "decomposed": "Cre\u0300me bru\u0302le\u0301e in Zu\u0308rich",
            "strokes": "The depot in Łódź serves smørrebrød",
        }
    )

    wanted = {
        "procédure": "composed", "procedure": "composed", "PROCÉDURE": "composed", "proce\u0301dure": "composed",
        "creme": "decomposed", "brûlée": "decomposed", "zurich": "decomposed", "Zürich": "decomposed",
        "lodz": "strokes", "Smørrebrød": "strokes",
    }  # fmt: skip
    for asked, name in wanted.items():
        assert await corpus.by_words(asked) == [name], asked


async def test_german_words_are_found_in_other_forms_and_in_joined_words(ingest: Ingest) -> None:
    corpus = await ingest(
        {
            "de/keys": "Die Büro-Schlüssel liegen am Empfang.",
            "de/houses": "Die Häuser am See sind alt.",
            "de/road": "Der Fahrplan der Straßenbahn gilt ab Mai.",
            "de/hours": "Überstunden werden ausgezahlt.",
        }
    )

    wanted = {
        "Schlüssel": "de/keys", "schlussel": "de/keys", "BÜRO": "de/keys", "Haus": "de/houses", "häusern": "de/houses",
        "STRASSENBAHN": "de/road", "Überstunde": "de/hours", "ueberstunden": "de/hours",
    }  # fmt: skip
    for asked, name in wanted.items():
        assert await corpus.by_words(asked) == [name], asked


async def test_turkish_words_are_found_with_either_i(ingest: Ingest) -> None:
    corpus = await ingest(
        {"tr/d": "Diyarbakır şubesi kapalıdır.", "tr/i": "İstanbul ofisi açık.", "tr/g": "GÜL BAHÇESİ, ISPARTA"}
    )

    wanted = {
        "DIYARBAKIR": "tr/d", "diyarbakır": "tr/d", "diyarbakir": "tr/d", "istanbul": "tr/i", "İSTANBUL": "tr/i",
        "ISTANBUL": "tr/i", "ısparta": "tr/g", "Isparta": "tr/g", "bahçesi": "tr/g",
    }  # fmt: skip
    for asked, name in wanted.items():
        assert await corpus.by_words(asked) == [name], asked


async def test_each_document_of_a_tenant_of_many_languages_is_found_by_its_own_rules(ingest: Ingest) -> None:
    corpus = await ingest(
        {
            "en/a": "Refunds are paid in days", "de/b": "Die Rechnungen der Kunden",
            "fr/c": "Les remboursements annuels", "ru/d": "Возвраты оформляются сразу", "ja/e": "返金の手続き",
        }
    )  # fmt: skip

    wanted = {"refund": "en/a", "Rechnung": "de/b", "remboursement": "fr/c", "возврат": "ru/d", "返金": "ja/e"}
    for asked, name in wanted.items():
        assert await corpus.by_words(asked) == [name], asked
