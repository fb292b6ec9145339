from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rag.retrieval import retriever
from tests.e2e.conftest import Caller, OpenFake

pytestmark = pytest.mark.usefixtures("quiet_log")

QUESTIONS = [
    "how long does a refund take",
    "HLY-4031",
    "Größe XL 📦",
    "hotel allowance",
    "oil",
    "退款",
    "salary band B7",
]


def untimed(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in {"timings_ms", "request_id"}}


async def test_a_search_finds_the_chunk_that_answers(acme: Caller) -> None:
    found = await acme.search("how long does a refund take?")

    assert found["hits"][0]["external_id"] == "guides/refunds.md"
    assert "five business days" in found["hits"][0]["text"]
    assert found["hits"][0]["breadcrumb"][:1] == ["Refunds"]
    assert (found["complete"], found["rerank"], found["rerank_reason"]) == (True, "full", None)
    assert {"dense", "lexical", "rerank", "total"} <= found["timings_ms"].keys()


async def test_an_identifier_is_found_first(acme: Caller) -> None:
    assert (await acme.found("HLY-4032"))[0] == "ops/errors.md"


@pytest.mark.parametrize("question", QUESTIONS)
async def test_every_hit_is_the_exact_span_of_its_document(acme_hr: Caller, question: str) -> None:
    hits = (await acme_hr.search(question, top_k=100))["hits"]

    assert hits
    texts = {name: (await acme_hr.document(name))["text"] for name in {hit["external_id"] for hit in hits}}
    assert all(texts[hit["external_id"]][hit["start"] : hit["end"]] == hit["text"] for hit in hits)


@pytest.mark.parametrize("rerank", [True, False])
async def test_top_k_does_not_change_the_order(acme: Caller, rerank: bool) -> None:
    every = (await acme.search("refund hotel pump", top_k=100, rerank=rerank))["hits"]

    for top_k in (1, 3, 5):
        assert (await acme.search("refund hotel pump", top_k=top_k, rerank=rerank))["hits"] == every[:top_k]


async def test_the_same_search_gives_the_same_body(acme: Caller) -> None:
    bodies = await asyncio.gather(*(acme.search("refund fees", explain=True) for _ in range(4)))

    assert all(untimed(body) == untimed(bodies[0]) for body in bodies)
    assert len({body["request_id"] for body in bodies}) == 4


async def test_scores_fall_and_chunks_come_once(acme: Caller) -> None:
    hits = (await acme.search("refund", top_k=100))["hits"]

    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert len({hit["chunk_id"] for hit in hits}) == len(hits)


async def test_without_rerank_the_fused_order_stands(acme: Caller) -> None:
    found = await acme.search("refund", rerank=False, explain=True)

    assert (found["rerank"], found["rerank_reason"]) == ("skipped", "not_asked")
    assert [hit["ranks"]["fused"]["rank"] for hit in found["hits"]] == list(range(1, len(found["hits"]) + 1))
    assert all(hit["ranks"]["rerank"] is None for hit in found["hits"])


async def test_explain_shows_the_place_in_each_leg(acme: Caller) -> None:
    best = (await acme.search("HLY-4031", explain=True))["hits"][0]["ranks"]

    assert best["lexical"]["rank"] == 1
    assert best["lexical"]["score"] > 0
    assert best.keys() == {"dense", "lexical", "fused", "rerank"}
    assert 0.5 <= best["fused"]["score"] <= 1.0  # the lexical leg's best, and what the dense leg adds


async def test_without_explain_there_are_no_ranks(acme: Caller) -> None:
    assert (await acme.search("refund"))["hits"][0]["ranks"] is None


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"field": "doc_type", "op": "eq", "value": "guide"}, {"guides/refunds.md", "guides/pump.md"}),
        ({"field": "metadata.level", "op": "gt", "value": 2}, {"guides/pump.md"}),
        ({"field": "metadata.public", "op": "eq", "value": True}, {"guides/refunds.md"}),
        ({"field": "metadata.level", "op": "eq", "value": "2"}, set()),
        ({"field": "tags", "op": "contains", "value": "money"}, {"guides/refunds.md"}),
        ({"field": "source", "op": "exists", "value": True}, {"größen/📦 boxes.md"}),
        ({"field": "external_id", "op": "in", "value": ["guides/pump.md", "none"]}, {"guides/pump.md"}),
        ({"field": "external_id", "op": "in", "value": ["hr/salaries.md"]}, set()),
        ({"field": "doc_type", "op": "in", "value": []}, set()),
        ({"any": []}, set()),
        ({"field": "metadata.level", "op": "eq", "value": 10**400}, set()),
        (
            {"all": [{"field": "doc_type", "op": "eq", "value": "guide"}, {"not": {"any": [
                {"field": "tags", "op": "contains", "value": "money"}]}}]},
            {"guides/pump.md"},
        ),
    ],
)  # fmt: skip
async def test_a_filter_narrows_the_search(acme: Caller, filters: dict[str, Any], names: set[str]) -> None:
    assert set(await acme.found("refund pump box", filters=filters, top_k=100)) == names


@pytest.mark.parametrize(
    ("filters", "hints"),
    [
        (
            {"field": "metadata.level", "op": "eq", "value": "2"},
            ["filters: metadata.level is a number in the documents, and is compared with text"],
        ),
        (
            {"field": "metadata.public", "op": "in", "value": ["yes", 1]},
            ["filters: metadata.public is true or false in the documents, and is compared with a number or text"],
        ),
        (
            {"field": "metadata.levle", "op": "gt", "value": 2},
            ["filters: no document that you may see has metadata.levle"],
        ),
        (
            {"field": "metadata.level", "op": "gt", "value": 100},
            ["filters: no document that you may see passes metadata.level gt 100"],
        ),
        (
            {"any": [
                {"field": "doc_type", "op": "eq", "value": "giude"}, {"field": "tags", "op": "contains", "value": "-"},
            ]},
            [
                'filters: no document that you may see passes doc_type eq "giude"',
                'filters: no document that you may see passes tags contains "-"',
            ],
        ),
        (
            {"all": [
                {"field": "doc_type", "op": "eq", "value": "guide"}, {"field": "source", "op": "exists", "value": True},
            ]},
            ["filters: each condition lets documents pass that you may see, all of them together none"],
        ),
        (
            {"all": [
                {"field": "tags", "op": "contains", "value": "-"}, {"field": "metadata.tags", "op": "eq", "value": "-"},
            ]},
            [
                'filters: no document that you may see passes tags contains "-"',
                "filters: no document that you may see has metadata.tags",
            ],
        ),
        (
            {"all": [
                {"field": "metadata.level", "op": "eq", "value": 2},
                {"any": [{"field": "doc_type", "op": "eq", "value": name} for name in ("reference", "zzz")]},
            ]},
            ["filters: each condition lets documents pass that you may see, all of them together none"],
        ),
        (
            {"not": {"field": "external_id", "op": "ne", "value": "hr/salaries.md"}},
            ["filters: no document that you may see passes the not"],
        ),
        (
            {"all": [{"not": {"field": "external_id", "op": "exists", "value": True}}, {"any": []}]},
            [
                "filters: no document that you may see passes the not",
                "filters: no document that you may see passes the any",
            ],
        ),
        (
            {"field": "metadata.level", "op": "in", "value": []},
            ["filters: metadata.level in takes a list of values, and this one is empty: no document passes it"],
        ),
        (
            {"field": "metadata.level", "op": "contains", "value": "99"},
            ['filters: no document that you may see passes metadata.level contains "99"'],
        ),
        (
            {"field": "external_id", "op": "exists", "value": False},
            ["filters: every document that you may see has external_id"],
        ),
        (
            {"field": "metadata.levle", "op": "exists", "value": True},
            ["filters: no document that you may see has metadata.levle"],
        ),
        (
            {"any": [{"field": "source", "op": "eq", "value": f"{n}"} for n in range(20)]},
            [f'filters: no document that you may see passes source eq "{n}"' for n in range(16)],
        ),
        (
            {"all": [*[{"field": "metadata.level", "op": "gte", "value": 0}] * 16, {"any": []}]},
            [],  # that one is not looked at
        ),
    ],
)  # fmt: skip
async def test_a_filter_that_nothing_passes_is_explained(
    acme: Caller, filters: dict[str, Any], hints: list[str]
) -> None:
    found = await acme.search("refund pump box", filters=filters)

    assert (found["hits"], found["hints"], found["complete"]) == ([], hints, True)
    assert (await acme.query("how long does a refund take?", filters=filters))["hints"] == hints


async def test_hints_tell_nothing_of_what_the_caller_may_not_see(acme: Caller, acme_hr: Caller) -> None:
    salaries = {"field": "metadata.band", "op": "eq", "value": 7}

    outside, member = await acme.search("salary", filters=salaries), await acme_hr.search("salary", filters=salaries)

    assert outside["hints"] == ["filters: no document that you may see has metadata.band"]
    assert member["hints"] == ["filters: metadata.band is text in the documents, and is compared with a number"]


async def test_a_moment_without_documents_is_named(newcomer: Caller) -> None:
    await newcomer.put("later.md", json={"text": "Refunds take five days.", "valid_from": "2020-01-01"})

    then = await newcomer.search("refund", as_of="1990-01-01")
    await newcomer.put("past.md", json={"text": "Refunds take ten days.", "valid_to": "2021-01-01"})
    past = await newcomer.search("refund", filters={"field": "external_id", "op": "eq", "value": "past.md"})
    quoted = await newcomer.search('"nine days"', filters={"field": "external_id", "op": "eq", "value": "later.md"})

    assert then["hints"] == ["no document that you may see is valid at as_of"]
    assert past["hints"] == ["filters: no document that passes them is valid today; ask with as_of for another day"]
    assert quoted["hints"] == [
        'no chunk that you may see and the filters keep has the phrase "nine days", to the letter; ask without the'
        " quotation marks or without the filters"
    ]


async def test_hints_that_take_too_long_leave_the_search_as_it_is(
    fake_service: OpenFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retriever, "HINTS_S", 0)
    async with fake_service() as service:
        found = await (await service.caller()).search("refund")

    assert (found["hits"], found["hints"], found["complete"]) == ([], [], True)


async def test_where_something_is_found_there_are_no_hints(acme: Caller) -> None:
    assert (await acme.search("refund"))["hints"] == []


async def test_who_sees_no_document_is_told_so(newcomer: Caller) -> None:
    assert (await newcomer.search("refund"))["hints"] == ["there is no document that you may see"]


async def test_a_hit_says_what_kind_of_chunk_it_is(acme: Caller) -> None:
    hit = (await acme.search("refund"))["hits"][0]

    chunks = (await acme.chunks(hit["external_id"]))["chunks"]
    assert hit["kind"] == next(chunk["kind"] for chunk in chunks if chunk["chunk_id"] == hit["chunk_id"]) != ""


@pytest.mark.parametrize(
    ("method", "path", "detail"),
    [
        ("POST", "/v1/search?explain=true", "'explain' is no parameter of this route; it takes none"),
        ("DELETE", "/v1/documents/guides/pump.md?version=1", "'version' is no parameter of this route; it takes none"),
        ("GET", "/v1/documents?limt=5", "'limt' is no parameter of this route; it takes after, limit, prefix, folder"),
        ("GET", "/v1/documents?limit=5&limit=6", "'limit' is there 2 times; say it once"),
    ],
)
async def test_a_parameter_that_a_route_does_not_know_is_refused(
    acme: Caller, method: str, path: str, detail: str
) -> None:
    refused = await acme.send(method, path, json={"query": "refund"} if method == "POST" else None)

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert refused.json()["detail"] == detail
    assert (await acme.document("guides/pump.md"))["version"] == 1


async def test_a_quoted_phrase_narrows_both_legs(acme: Caller) -> None:
    found = await acme.search('cost of "processing fees"', top_k=100, explain=True)

    assert [hit["external_id"] for hit in found["hits"]] == ["guides/refunds.md"]
    assert "Processing fees" in found["hits"][0]["text"]
    assert all(hit["ranks"]["dense"] and hit["ranks"]["lexical"] for hit in found["hits"])
    assert (found["complete"], found["timings_ms"]["phrases"] > 0) == (True, True)
    assert await acme.found('"processing refund"', top_k=100) == []
    assert len(await acme.found('processing fees"', top_k=100)) > 1


async def test_a_phrase_that_no_chunk_has_is_named_to_who_may_not_see_it(acme: Caller, acme_hr: Caller) -> None:
    outside = await acme.search('salary "band B7" "processing refund"')
    member = await acme_hr.search('salary "band B7" "processing refund"')
    plain = await acme.search("salary band B7")

    assert (outside["hits"], outside["missing_phrases"]) == ([], ["band B7", "processing refund"])
    assert outside["hints"] == [
        'no chunk that you may see has the phrases "band B7" and "processing refund", to the letter;'
        " ask without the quotation marks"
    ]
    assert (member["hits"], member["missing_phrases"]) == ([], ["processing refund"])
    assert plain["missing_phrases"] == []


@pytest.mark.parametrize("question", ["???", '"???"', '""', '"', "'; --", "\\", "the of and"])
async def test_a_question_without_words_is_served(acme: Caller, question: str) -> None:
    hits = (await acme.search(question, explain=True))["hits"]

    assert [hit["ranks"]["lexical"] for hit in hits] == [None] * len(hits) != []


async def test_a_document_with_groups_is_found_only_by_their_members(acme: Caller, acme_hr: Caller) -> None:
    everyone = await acme.found("salary band B7", top_k=100)
    members = await acme_hr.found("salary band B7", top_k=100)

    assert members[0] == "hr/salaries.md"
    assert "hr/salaries.md" not in everyone
    assert sorted(everyone) == sorted(name for name in members if name != "hr/salaries.md") != []


async def test_a_search_as_of_a_moment_finds_what_was_valid_then(acme: Caller) -> None:
    async def policies(**body: Any) -> set[str]:
        return {name for name in await acme.found("hotel allowance", top_k=100, **body) if name.startswith("travel")}

    assert await policies() == {"travel-2025.md"}
    assert await policies(as_of="2024-06-01") == {"travel-2024.md"}
    assert await policies(as_of="2024-12-31T23:59:59Z") == {"travel-2024.md"}
    assert await policies(as_of="2025-01-01") == {"travel-2025.md"}
    assert await policies(as_of="2025-01-01T00:00:00+01:00") == {"travel-2024.md"}


async def test_a_tenant_without_documents_finds_nothing(newcomer: Caller) -> None:
    found = await newcomer.search("refund")

    assert (found["hits"], found["complete"], found["index_version"]) == ([], True, 0)
    assert (found["rerank"], found["rerank_reason"]) == ("skipped", "nothing_found")
