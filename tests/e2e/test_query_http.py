from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Caller, document

pytestmark = pytest.mark.usefixtures("quiet_log")

Event = tuple[str, dict[str, Any]]


async def events(caller: Caller, question: str, **body: Any) -> list[Event]:
    headers = {"Authorization": f"Bearer {caller.key}"}
    found: list[Event] = []
    request = {"query": question, "stream": True, **body}
    async with caller.http.stream("POST", "/v1/query", json=request, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                found.append((name, json.loads(value)))
    return found


def untimed(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in {"timings_ms", "request_id"}}


async def test_a_question_is_answered_with_citations(acme: Caller) -> None:
    answer = await acme.query("How long does a refund take?")

    assert answer["status"] == "answered"
    assert "five business days" in answer["answer"]
    assert (answer["provider"], answer["cache"]) == ("extractive", "off")
    assert (answer["rerank"], answer["rerank_reason"]) == ("full", None)
    assert answer["citations"][0]["external_id"] == "guides/refunds.md"
    assert (answer["citations"][0]["title"], answer["citations"][0]["breadcrumb"]) == (
        "Refunds",
        ["Refunds", "How long it takes"],
    )
    assert f"[{answer['citations'][0]['n']}]" in answer["answer"]
    assert {"retrieval", "model", "total", "retrieval.dense"} <= answer["timings_ms"].keys()


async def test_a_question_that_quotes_is_answered_from_what_holds_the_phrase(acme: Caller) -> None:
    answer = await acme.query('How much is the "hotel allowance"?')
    nowhere = await acme.query('How much is the "motel allowance"?')

    assert "155 EUR" in answer["answer"]
    assert {citation["external_id"] for citation in answer["citations"]} == {"travel-2025.md"}
    assert (nowhere["status"], nowhere["citations"]) == ("no_evidence", [])


async def test_an_answer_about_a_phrase_cites_no_neighbour_of_its_chunk(newcomer: Caller) -> None:
    filler = "The pump needs oil and the pump needs care in every season of the year. " * 30
    text = f"# Pump\n\nPrime the pump gently before use.\n\n{filler}\n\nPrime the pump again after a year.\n"
    await newcomer.put("pump.md", json={"text": text})

    hits = (await newcomer.search('"prime the pump gently"', top_k=100))["hits"]
    answer = await newcomer.query('When do I "prime the pump gently"?')

    assert answer["status"] == "answered"
    spans = [(hit["start"], hit["end"]) for hit in hits]
    assert all(any(s <= c["start"] < c["end"] <= e for s, e in spans) for c in answer["citations"])


async def test_an_answer_states_the_whole_date(newcomer: Caller) -> None:
    text = "# Urlaub\n\nDer Antrag geht an Hrn. Schmidt. Resturlaub verfällt am 31. März des Folgejahres.\n"
    await newcomer.put("urlaub.md", json={"text": text})

    answer = await newcomer.query("Wann verfällt der Resturlaub?")

    assert "Resturlaub verfällt am 31. März des Folgejahres." in answer["answer"]
    assert answer["citations"][0]["quote"].endswith("am 31. März des Folgejahres.")


@pytest.mark.parametrize(
    "question",
    ["How long does a refund take?", "What does HLY-4031 mean?", "How much does the Größe XL parcel box hold?",
     "What is the hotel allowance?", "When do I change the oil of the pump?"],
)  # fmt: skip
async def test_every_quote_is_the_exact_span_of_its_document(acme: Caller, question: str) -> None:
    answer = await acme.query(question)

    assert answer["citations"]
    for citation in answer["citations"]:
        text = (await acme.document(citation["external_id"]))["text"]
        assert text[citation["start"] : citation["end"]] == citation["quote"] != ""


@pytest.mark.parametrize("question", ["What does HLY-4039 mean?", "Who won the 1998 chess championship?", "退款 🎈"])
async def test_a_question_that_the_documents_do_not_answer_has_no_evidence(acme: Caller, question: str) -> None:
    answer = await acme.query(question)

    assert (answer["status"], answer["answer"], answer["citations"]) == ("no_evidence", "", [])


async def test_the_same_question_gives_the_same_body(acme: Caller) -> None:
    first, second = [await acme.query("Are fees returned with a refund?") for _ in range(2)]

    assert untimed(first) == untimed(second)
    assert first["request_id"] != second["request_id"]


async def test_a_document_with_groups_answers_only_their_members(acme: Caller, acme_hr: Caller) -> None:
    question = "Where does salary band B7 start?"

    assert (await acme.query(question))["status"] == "no_evidence"
    assert "71,000 EUR" in (await acme_hr.query(question))["answer"]


async def test_a_question_as_of_a_moment_is_answered_from_what_was_valid_then(acme: Caller) -> None:
    question = "What is the hotel allowance?"

    assert "155 EUR" in (await acme.query(question))["answer"]
    assert "120 EUR" in (await acme.query(question, as_of="2024-06-01"))["answer"]


async def test_filters_and_the_token_limit_hold_for_answers(acme: Caller) -> None:
    nowhere = {"field": "doc_type", "op": "eq", "value": "none"}

    assert (await acme.query("How long does a refund take?", filters=nowhere))["status"] == "no_evidence"
    assert len((await acme.query("How long does a refund take?", max_tokens=1))["citations"]) == 1


async def test_a_stream_gives_sources_then_the_answer_in_pieces_then_the_whole(acme: Caller) -> None:
    plain = await acme.query("How long does a refund take?")

    streamed = await events(acme, "How long does a refund take?")

    names = [name for name, _ in streamed]
    assert names == ["sources", *["delta"] * (len(names) - 2), "done"]
    assert len(names) > 3
    assert "".join(data["text"] for name, data in streamed if name == "delta") == streamed[-1][1]["answer"]
    assert untimed(streamed[-1][1]) == untimed(plain)
    assert streamed[0][1]["request_id"] == streamed[-1][1]["request_id"]


async def test_streamed_sources_are_those_the_answer_cites_and_have_spans(acme: Caller) -> None:
    streamed = await events(acme, "How long does a refund take?")

    listed = {source["n"]: source for source in streamed[0][1]["sources"]}
    assert list(listed) == list(range(1, len(listed) + 1))
    for citation in streamed[-1][1]["citations"]:
        source = listed[citation["n"]]
        assert source["external_id"] == citation["external_id"]
        assert source["start"] <= citation["start"] < citation["end"] <= source["end"]


async def test_no_line_separator_of_a_document_ends_a_line_of_the_stream(newcomer: Caller) -> None:
    separators = ("\u2028", "\x85")
    text = f"The parking fee is 12 euros{' '.join(separators)} at gate seven.\n"
    await newcomer.put("fees.txt", json={"text": text, "content_type": "text/plain"})
    headers = {"Authorization": f"Bearer {newcomer.key}"}

    stream = await newcomer.http.post(
        "/v1/query", json={"query": "What is the parking fee at gate seven?", "stream": True}, headers=headers
    )

    [done] = [line for line in stream.text.split("\n") if '"citations"' in line]
    assert stream.text.isascii()
    assert all(mark in json.loads(done.removeprefix("data: "))["citations"][0]["quote"] for mark in separators)


async def test_a_stream_without_evidence_has_no_pieces(acme: Caller) -> None:
    [sources, done] = await events(acme, "What does HLY-4039 mean?")

    assert sources[0] == "sources"
    assert sources[1]["sources"] == []
    assert done[0] == "done"
    assert done[1]["status"] == "no_evidence"


async def test_a_stream_that_cannot_begin_has_the_status_of_its_error(acme: Caller) -> None:
    refused = await acme.send("POST", "/v1/query", json={"query": " ", "stream": True})

    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"


async def test_an_answer_after_a_document_changed_is_from_its_new_version(newcomer: Caller) -> None:
    for days in ("five", "nine"):
        await newcomer.put("refunds.md", json={"text": f"# Refunds\n\nA refund takes {days} business days.\n"})

    answer = await newcomer.query("How long does a refund take?")

    assert "nine" in answer["answer"]
    assert answer["citations"][0]["quote"] == "A refund takes nine business days."
    assert (await newcomer.send("DELETE", document("refunds.md"))).status_code == 204
    assert (await newcomer.query("How long does a refund take?"))["status"] == "no_evidence"
