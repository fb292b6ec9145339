"""What a document's tags decide: which chat models may read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ingest.pipeline import Pipeline, Source
from rag.llm.extractive import ExtractiveModel
from rag.llm.failover import FailoverChat
from rag.llm.lanes import Chain, Lanes
from rag.values import tenant_id
from tests.e2e.conftest import Caller, OpenFake
from tests.e2e.test_completions_http import client_of
from tests.e2e.test_operation_http import QUESTION, with_a_document
from tests.e2e.test_query_http import events
from tests.fakes import FakeReranker, embedders, parse_directly
from tests.integration.llm.fake_server import FakeServer, open_fake
from tests.integration.llm.fake_steps import good
from tests.integration.llm.theatre import open_theatre

PERSONAL = "salary of Anna Berg"
STAFF = Source(
    "staff.md", b"# Staff\n\nThe salary of Anna Berg is 71000 EUR.\n", facets={"tags": ["personal", "people"]}
)


@dataclass
class Classed:
    """A service with a document of a data class and one of none, in front of two providers."""

    caller: Caller
    fake: FakeServer

    def read_by(self, text: str) -> list[str]:
        """The providers that were sent the text."""
        return [name for name, hits in sorted(self.fake.hits.items()) if any(text.encode() in h.body for h in hits)]


OpenClassed = Callable[..., AbstractAsyncContextManager[Classed]]


@pytest.fixture
def classed(fake_service: OpenFake) -> OpenClassed:
    @asynccontextmanager
    async def opened(*allowed: set[str], extractive: bool = False) -> AsyncIterator[Classed]:
        """Providers p1, p2, ... that may each read the classes given."""
        async with open_fake() as fake, open_theatre(fake, *[{"allows": classes} for classes in allowed]) as theatre:
            lanes = Lanes({"answer": Chain(tuple(theatre.hops.values()), extractive)})
            chat = FailoverChat(lanes, ExtractiveModel(FakeReranker()), theatre.metrics)
            for name in theatre.hops:
                fake.play(name, good("It is in the source. [1]"))
            async with fake_service(chat, data_classes="personal, health") as service:
                caller = await with_a_document(service)
                pipeline = Pipeline(service.database, embedders(), parse_directly)
                [stored] = await pipeline.ingest(tenant_id("fake"), [STAFF])
                assert stored.state == "done"
                yield Classed(caller, fake)

    return opened


async def test_a_document_of_a_class_is_read_only_by_a_target_that_allows_it(classed: OpenClassed) -> None:
    async with classed(set(), {"personal"}) as service:
        personal = await service.caller.query(PERSONAL, top_k=1)
        streamed = await events(service.caller, PERSONAL, top_k=1)
        plain = await service.caller.query(QUESTION, top_k=1)

        assert (personal["provider"], streamed[-1][1]["provider"], plain["provider"]) == ("p2", "p2", "p1")
        assert service.read_by("Anna Berg is") == ["p2"]
        assert service.read_by("takes five days") == ["p1"]


async def test_one_source_of_a_class_among_others_is_enough(classed: OpenClassed) -> None:
    async with classed(set(), {"personal"}) as service:
        answer = await service.caller.query(f"{PERSONAL}, {QUESTION}")

        assert {source["external_id"] for source in answer["citations"]} <= {"staff.md", "refunds.md"}
        assert answer["provider"] == "p2"
        assert service.read_by("takes five days") == service.read_by("Anna Berg is") == ["p2"]


async def test_where_no_target_may_read_it_the_error_says_so_and_nobody_does(classed: OpenClassed) -> None:
    async with classed(set(), {"health"}) as service:
        refused = await service.caller.send("POST", "/v1/query", json={"query": PERSONAL, "top_k": 1})
        streamed = await events(service.caller, PERSONAL, top_k=1)

        assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed")
        assert "allows" in refused.json()["detail"]
        assert [(name, body.get("code")) for name, body in streamed] == [("sources", None), ("error", "not_allowed")]
        assert service.read_by("Anna Berg is") == []


async def test_where_no_target_may_read_it_its_own_sentences_answer_if_they_end_the_chain(
    classed: OpenClassed,
) -> None:
    async with classed(set(), {"health"}, extractive=True) as service:
        answer = await service.caller.query(PERSONAL, top_k=1)

        assert (answer["status"], answer["provider"]) == ("degraded", "extractive")
        assert "71000 EUR" in answer["answer"]
        assert service.read_by("Anna Berg is") == []


async def test_an_answer_tells_the_classes_of_what_it_was_made_from(classed: OpenClassed) -> None:
    async with classed({"personal"}) as service:
        personal = await service.caller.query(PERSONAL, top_k=1)
        plain = await service.caller.query(QUESTION, top_k=1)

    assert (personal["data_classes"], plain["data_classes"]) == (["personal"], [])


@pytest.mark.parametrize(
    ("first", "kept", "provider"),
    [
        pytest.param(PERSONAL, True, "p2", id="of a class"),
        pytest.param(QUESTION, True, "p1", id="of none"),
        pytest.param(QUESTION, False, "p3", id="unknown, so it may be of any"),
    ],
)
async def test_a_conversation_goes_only_where_its_earlier_answers_may(
    classed: OpenClassed, first: str, kept: bool, provider: str
) -> None:
    async with classed(set(), {"personal"}, {"personal", "health"}) as service:
        asked = [{"role": "user", "content": first}]
        answer = await complete(service.caller, asked)
        earlier = answer if kept else {name: answer[name] for name in ("role", "content")}

        later = await complete(service.caller, [*asked, earlier, {"role": "user", "content": QUESTION}])

    assert service.read_by("It is in the source.") == [provider]
    assert later["data_classes"] == {"p1": [], "p2": ["personal"], "p3": ["health", "personal"]}[provider]


async def test_a_message_of_openais_client_brings_its_classes_back(classed: OpenClassed) -> None:
    async with classed(set(), {"personal"}) as service, client_of(service.caller) as client:
        talk: list[Any] = [{"role": "user", "content": PERSONAL}]
        first = await client.chat.completions.create(model="rag", messages=talk, extra_body={"top_k": 1})
        talk += [first.choices[0].message, {"role": "user", "content": QUESTION}]

        await client.chat.completions.create(model="rag", messages=talk, extra_body={"top_k": 1})

    assert service.read_by("It is in the source.") == ["p2"]


@pytest.mark.parametrize(("earlier", "times"), [("personal", 0), ("", 1)])
async def test_a_follow_up_written_of_an_earlier_answer_is_of_its_classes_for_who_imagines_a_passage(
    fake_service: OpenFake, earlier: str, times: int
) -> None:
    chains = {"answer": ("p2",), "rewrite": ("p2",), "hyde": ("p1",)}
    async with open_fake() as fake, open_theatre(fake, {}, {"allows": {"personal"}}) as theatre:
        lanes = Lanes({task: Chain((theatre.hops[name],)) for task, (name,) in chains.items()})  # type: ignore[misc]
        chat = FailoverChat(lanes, ExtractiveModel(FakeReranker()), theatre.metrics)
        fake.play("p1", good("Somebody earns something."))
        fake.play("p2", good("What does Anna Berg earn?"))
        async with fake_service(chat, data_classes="personal", chat_chains=chains) as service:
            caller = await with_a_document(service)
            said = {"role": "assistant", "content": "Anna Berg.", "data_classes": earlier.split()}
            question = {"role": "user", "content": "What does she earn?"}

            await complete(caller, [{"role": "user", "content": "Who leads?"}, said, question], recall="high")

        assert len(fake.hits["p1"]) == times


async def test_what_a_class_is_said_to_be_that_is_none_any_more_keeps_nobody_out(classed: OpenClassed) -> None:
    async with classed(set()) as service:
        earlier = {"role": "assistant", "content": "It is so.", "data_classes": ["secret"]}
        turns = [{"role": "user", "content": "?"}, earlier, {"role": "user", "content": QUESTION}]

        assert (await complete(service.caller, turns))["status"] == "answered"


async def complete(caller: Caller, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The message that a completion has for the conversation."""
    body = {"model": "rag", "messages": messages, "top_k": 1, **more}
    response = await caller.send("POST", "/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json()["choices"][0]["message"])
