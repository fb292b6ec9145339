from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import httpx2
import numpy as np
import pytest

from rag.errors import InvalidInput, ModelMissing, SetupError, UpstreamError
from rag.inference.remote import AT_A_TIME, BATCH_TEXTS, RemoteEmbedder, RemoteReranker, batches
from rag.protocols import Score
from rag.values import DIMS, Deadline
from tests.unit.rag.model_server import Body, ModelServer, embeddings, scores

LATER = Deadline(float("inf"))


def axis(n: int, length: float = 1.0) -> list[float]:
    return [length * (m == n) for m in range(DIMS)]


def by_length(body: Body) -> Body:
    """A vector along the axis of each text's length."""
    return embeddings([axis(len(text), 5.0) for text in body["input"]])


def by_scores(**table: float) -> ModelServer:
    return ModelServer(lambda body: scores([table[text] for text in body["documents"]]))


async def embed(server: ModelServer, texts: Sequence[str], **options: object) -> list[list[float]]:
    async with server.open(options=options) as service:
        return (await RemoteEmbedder(service).embed_documents(texts)).tolist()


async def score(server: ModelServer, texts: Sequence[str], **options: object) -> list[Score]:
    async with server.open("RAG_RERANKER", options={"scores": "logits", **options}) as service:
        return await RemoteReranker(service).score("q", texts, LATER)


async def test_vectors_are_put_back_by_their_index_and_made_unit() -> None:
    assert await embed(ModelServer(by_length), ["a", "bbb", "cc"]) == [axis(1), axis(3), axis(2)]


async def test_many_texts_go_in_batches_and_come_back_in_order() -> None:
    server = ModelServer(by_length)
    texts = ["x" * (1 + n % 7) for n in range(3 * BATCH_TEXTS + 5)]

    vectors = await embed(server, texts)

    assert vectors == [axis(len(text)) for text in texts]
    assert sorted(len(body["input"]) for body in server.bodies) == [5, 32, 32, 32]


def test_a_batch_ends_before_it_has_too_many_texts_or_characters() -> None:
    assert list(batches(["x"] * 33)) == [list(range(32)), [32]]
    assert list(batches(["x" * 9000, "y" * 7000, "z", "w" * 99_000, "v"])) == [[0, 1], [2], [3], [4]]
    assert list(batches([])) == []


async def test_only_so_many_batches_are_in_flight_and_a_question_waits_for_none() -> None:
    in_flight, most = 0, 0
    open_gate = asyncio.Event()

    async def answer(body: Body) -> Body:
        nonlocal in_flight, most
        if body["input"] != ["question"]:
            in_flight += 1
            most = max(most, in_flight)
            await open_gate.wait()
            in_flight -= 1
        return by_length(body)

    async with ModelServer(answer).open() as service:
        embedder = RemoteEmbedder(service)
        documents = asyncio.create_task(embedder.embed_documents(["x"] * 320))
        await asyncio.sleep(0.05)
        question = await embedder.embed_query("question")
        open_gate.set()
        await documents

    assert most == AT_A_TIME
    assert question.tolist() == axis(8)


def fails_when_another_is_in_flight(field: str) -> tuple[ModelServer, list[str]]:
    """A server that fails the batch with `bad` once another is at work for an hour; and how the other ended."""
    ended: list[str] = []
    at_work = asyncio.Event()

    async def answer(body: Body) -> object:
        if "bad" in body[field]:
            await at_work.wait()
            return httpx2.Response(401)
        at_work.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    return ModelServer(answer), ended


async def test_a_batch_that_fails_ends_those_beside_it_and_is_the_only_error() -> None:
    embedding, ended = fails_when_another_is_in_flight("input")

    with pytest.raises(SetupError, match="check RAG_EMBEDDER_KEY"):
        await embed(embedding, ["x"] * BATCH_TEXTS + ["bad"])

    assert ended == ["cancelled"]


async def test_scores_that_fail_end_those_beside_them_and_are_the_only_error() -> None:
    scoring, ended = fails_when_another_is_in_flight("documents")

    with pytest.raises(SetupError, match="check RAG_RERANKER_KEY"):
        await score(scoring, ["x"] * BATCH_TEXTS + ["bad"])

    assert ended == ["cancelled"]


async def test_an_error_of_one_batch_keeps_its_own_cause() -> None:
    def answer(body: Body) -> object:
        raise httpx2.ReadTimeout("slow")

    with pytest.raises(UpstreamError) as caught:
        await embed(ModelServer(answer), ["x"] * BATCH_TEXTS + ["y"])

    assert isinstance(caught.value.__cause__, httpx2.ReadTimeout)


async def test_prefixes_and_fields_differ_between_questions_and_documents() -> None:
    server = ModelServer(by_length)
    options = {
        "query_prefix": "query: ", "document_prefix": "passage: ", "dimensions": 384,
        "query.input_type": "q", "document.input_type": "d",
    }  # fmt: skip

    async with server.open(options=options) as service:
        embedder = RemoteEmbedder(service)
        await embedder.embed_query("x")
        await embedder.embed_documents(["y"])

    assert server.bodies == [
        {"model": "m", "input": ["query: x"], "input_type": "q", "dimensions": 384},
        {"model": "m", "input": ["passage: y"], "input_type": "d", "dimensions": 384},
    ]


async def test_nothing_is_sent_that_was_not_asked_for() -> None:
    server = ModelServer(by_length)

    await embed(server, ["y"])

    assert server.bodies == [{"model": "m", "input": ["y"]}]


async def test_the_name_tells_what_stored_vectors_depend_on_and_nothing_else() -> None:
    options = {"document_prefix": "passage: ", "query_prefix": "query: ", "document.task": "d", "max_tokens": 99}

    async with ModelServer(by_length).open() as plain, ModelServer(by_length).open(options=options) as told:
        assert RemoteEmbedder(plain).name == "remote:m"
        assert RemoteEmbedder(told).name == "remote:m?document.task=d&document_prefix=passage%3A+"
        assert RemoteEmbedder(told).max_tokens == 99


@pytest.mark.parametrize(
    "data",
    [
        embeddings([axis(0)]),
        embeddings([axis(0)] * 3),
        {"data": [{"index": 0, "embedding": axis(0)}] * 2},
        {"data": [{"index": 1, "embedding": axis(0)}, {"index": 2, "embedding": axis(0)}]},
        {"data": [{"index": n, "embedding": axis(0)} for n in (0, 1, 1)]},
        embeddings([axis(0)[:-1]] * 2),
        embeddings([axis(0), axis(0)[:-1]]),
        embeddings([axis(0), axis(0, math.nan)]),
        embeddings([axis(0), axis(0, math.inf)]),
        {"data": [{"index": 0, "embedding": axis(0)}, {"index": 1, "embedding": None}]},
        {"data": [{"index": 0, "embedding": axis(0)}, {"embedding": axis(0)}]},
        {"object": "list"},
    ],
    ids=[
        "too few",
        "too many",
        "twice",
        "shifted",
        "one twice",
        "short",
        "uneven",
        "nan",
        "inf",
        "null",
        "no index",
        "none",
    ],
)
async def test_vectors_that_make_no_sense_are_the_services_fault(data: Body) -> None:
    with pytest.raises(UpstreamError, match="cannot be used"):
        await embed(ModelServer(lambda body: data), ["a", "b"])


async def test_a_vector_of_zeros_is_left_to_the_document_but_is_no_question() -> None:
    async with ModelServer(lambda body: embeddings([axis(0, 0.0)])).open() as service:
        embedder = RemoteEmbedder(service)

        assert not (await embedder.embed_documents(["a"])).any()
        with pytest.raises(UpstreamError, match="zero"):
            await embedder.embed_query("a")


async def test_a_refused_batch_is_said_to_be_the_inputs_fault() -> None:
    with pytest.raises(InvalidInput, match="input is blank"):
        await embed(ModelServer(lambda body: httpx2.Response(400, text="input is blank")), ["a", ""])


async def test_a_text_is_sent_as_far_as_the_model_reads() -> None:
    server = ModelServer(by_length)

    await embed(server, ["ab" * 50, "ab" * 6], max_tokens=12)

    [[long, short]] = [body["input"] for body in server.bodies]
    assert 0.9 <= len(long) / 20 <= 1  # ten tokens and two marks
    assert short == "ab" * 6


async def test_tokens_are_those_of_the_tokenizer_with_the_documents_prefix(models: Path) -> None:
    options = {"tokenizer": models / "bge_small_en/tokenizer.json", "document_prefix": "passage: "}

    async with ModelServer(by_length).open(options=options) as service:
        assert RemoteEmbedder(service).count_tokens(["", "oil"]) == [4, 5]


async def test_a_tokenizer_that_is_not_there_is_named() -> None:
    async with ModelServer(by_length).open(options={"tokenizer": "/no/such/file"}) as service:
        with pytest.raises(ModelMissing, match="/no/such/file"):
            RemoteEmbedder(service)


async def test_a_fitting_service_passes_the_check_as_a_question_and_as_a_document() -> None:
    server = ModelServer(by_length)

    async with server.open(options={"query.input_type": "q", "document.input_type": "d"}) as service:
        await RemoteEmbedder(service).check()

    assert [body["input_type"] for body in server.bodies] == ["q", "d"]


async def test_a_service_that_refuses_documents_is_a_wrong_setting() -> None:
    def answer(body: Body) -> object:
        return httpx2.Response(422, text="unknown field") if "task" in body else by_length(body)

    async with ModelServer(answer).open(options={"document.task": "d"}) as service:
        with pytest.raises(SetupError, match="unknown field"):
            await RemoteEmbedder(service).check()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (embeddings([[1.0] * 1536]), r"m gives vectors of 1536, the index has 384; some models take .* dimensions"),
        (httpx2.Response(400, text="no model m"), "no model m"),
        (httpx2.Response(401), "check RAG_EMBEDDER_KEY"),
    ],
    ids=["1536", "400", "401"],
)
async def test_a_service_that_does_not_fit_is_a_wrong_setting(reply: object, reason: str) -> None:
    async with ModelServer(lambda body: reply).open() as service:
        with pytest.raises(SetupError, match=reason):
            await RemoteEmbedder(service).check()


async def test_scores_are_put_back_by_their_index_and_blank_texts_are_not_sent() -> None:
    server = by_scores(a=-3.5, b=7.25)

    assert await score(server, ["", "a", " \n", "b"]) == ["failed", -3.5, "failed", 7.25]
    assert server.bodies == [{"model": "m", "query": "q", "documents": ["a", "b"]}]


async def test_only_blank_texts_are_no_request() -> None:
    server = by_scores()

    assert await score(server, ["", " "]) == ["failed", "failed"]
    assert server.requests == []


async def test_the_form_of_text_embeddings_inference_is_read_too() -> None:
    server = ModelServer(lambda body: [{"index": 1, "score": 0.5}, {"index": 0, "score": -0.5}])

    assert await score(server, ["a", "b"], texts_field="texts") == [-0.5, 0.5]
    assert server.bodies == [{"model": "m", "query": "q", "texts": ["a", "b"]}]


async def test_probabilities_become_logits() -> None:
    server = by_scores(even=0.5, likely=0.75, sure=1.0, never=0.0)

    even, likely, sure, never = await score(server, ["even", "likely", "sure", "never"], scores="probabilities")

    assert even == 0.0
    assert likely == pytest.approx(math.log(3))
    assert sure == pytest.approx(16.118, abs=1e-3)
    assert never == pytest.approx(-16.118, abs=1e-3)


@pytest.mark.parametrize(("on", "off", "expected"), [(8.6, -11.2, 0.5), (0.99, 0.01, 0.0), (0.9, -0.2, 0.5)])
async def test_the_check_learns_whether_scores_are_logits_or_probabilities(
    on: float, off: float, expected: float
) -> None:
    replies = iter([scores([on, off]), scores([0.5])])

    async with ModelServer(lambda body: next(replies)).open("RAG_RERANKER") as service:
        reranker = RemoteReranker(service)
        await reranker.check()

        assert await reranker.score("q", ["a"], LATER) == [expected]


async def test_what_was_said_of_the_scores_comes_before_what_the_check_sees() -> None:
    replies = iter([scores([0.9, 0.1]), scores([0.5])])

    async with ModelServer(lambda body: next(replies)).open("RAG_RERANKER", options={"scores": "logits"}) as service:
        reranker = RemoteReranker(service)
        await reranker.check()

        assert await reranker.score("q", ["a"], LATER) == [0.5]


@pytest.mark.parametrize(
    "reply",
    [
        scores([1.0]),
        scores([1.0, 2.0, 3.0]),
        scores([1.0, math.nan]),
        {"results": [{"index": 0, "score": 1}, {"index": 0, "score": 1}]},
        {"results": [{"index": 0}, {"index": 1}]},
        {"scores": [1.0, 2.0]},
    ],
    ids=["too few", "too many", "nan", "twice", "no score", "another form"],
)
async def test_scores_that_make_no_sense_are_the_services_fault(reply: object) -> None:
    with pytest.raises(UpstreamError, match="cannot be used"):
        await score(ModelServer(lambda body: reply), ["a", "b"])


async def test_a_score_that_is_no_probability_is_said() -> None:
    with pytest.raises(UpstreamError, match="say scores=logits"):
        await score(by_scores(a=1.5), ["a"], scores="probabilities")


async def test_a_text_that_is_refused_has_no_score_and_costs_no_other() -> None:
    def answer(body: Body) -> object:
        if "poison" in body["documents"]:
            return httpx2.Response(413, text="too long")
        return scores([1.0] * len(body["documents"]))

    assert await score(ModelServer(answer), ["a", "b", "poison", "c"]) == [1.0, 1.0, "failed", 1.0]


async def test_texts_that_the_deadline_left_out_have_no_score() -> None:
    async def answer(body: Body) -> Body:
        if "slow" in body["documents"]:
            await asyncio.sleep(3600)
        return scores([2.0] * len(body["documents"]))

    async with ModelServer(answer).open("RAG_RERANKER", options={"scores": "logits"}) as service:
        found = await RemoteReranker(service).score("q", ["a"] * BATCH_TEXTS + ["slow", "b"], Deadline.after(0.2))

    assert found == [2.0] * BATCH_TEXTS + ["deadline", "deadline"]


async def test_after_the_deadline_nothing_is_sent() -> None:
    server = by_scores(a=1.0)

    async with server.open("RAG_RERANKER") as service:
        assert await RemoteReranker(service).score("q", ["a"], Deadline(0.0)) == ["deadline"]

    assert server.requests == []


async def test_a_long_question_leaves_room_for_the_text() -> None:
    server = by_scores(a=1.0)

    async with server.open("RAG_RERANKER") as service:
        await RemoteReranker(service).score("why? " * 500 + "What is the fee?", ["a"], LATER)

    assert len(server.bodies[0]["query"]) == 512
    assert server.bodies[0]["query"].startswith("why? why?")
    assert server.bodies[0]["query"].endswith("why? What is the fee?")


async def test_a_reranker_that_cannot_score_fails_the_check() -> None:
    async with ModelServer(lambda body: httpx2.Response(422, text="no texts")).open("RAG_RERANKER") as service:
        with pytest.raises(SetupError, match="no texts"):
            await RemoteReranker(service).check()


async def test_another_kind_of_scores_is_a_wrong_setting() -> None:
    async with by_scores().open("RAG_RERANKER", options={"scores": "stars"}) as service:
        with pytest.raises(SetupError, match="scores must be logits or probabilities"):
            RemoteReranker(service)


async def test_vectors_are_of_single_precision() -> None:
    async with ModelServer(by_length).open() as service:
        embedder = RemoteEmbedder(service)

        assert (await embedder.embed_query("a")).dtype == (await embedder.embed_documents(["a"])).dtype == np.float32
