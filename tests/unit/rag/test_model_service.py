from __future__ import annotations

import httpx2
import pytest
from pydantic import TypeAdapter

from rag.errors import InvalidInput, RagError, SetupError, UpstreamError
from rag.inference.model_service import ATTEMPTS
from tests.unit.rag.model_server import KEY, Body, ModelServer

NUMBERS = TypeAdapter(dict[str, int])
GONE = "Wed, 21 Oct 2015 07:28:00 GMT"
FAR = "Wed, 21 Oct 2099 07:28:00 GMT"


def answering(*replies: object) -> ModelServer:
    """Gives *replies* one after the other; an exception is raised."""
    waiting = iter(replies)

    def answer(_: Body) -> object:
        reply = next(waiting)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return ModelServer(answer)


async def ask(server: ModelServer, text: str = "x") -> dict[str, int]:
    async with server.open() as service:
        return await service.post("/embeddings", {"input": text}, NUMBERS)


async def fault(server: ModelServer) -> RagError:
    with pytest.raises(RagError) as caught:
        await ask(server)
    return caught.value


async def test_the_route_stands_below_the_url_and_the_key_in_the_header() -> None:
    server = answering({"n": 1})

    assert await ask(server) == {"n": 1}
    [request] = server.requests
    assert str(request.url) == "https://models.test/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"


async def test_without_a_key_there_is_no_such_header() -> None:
    server = answering({})

    async with server.open(key="") as service:
        await service.post("/embeddings", {}, NUMBERS)

    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    "passing",
    [
        *(httpx2.Response(status) for status in (408, 429, 500, 502, 503, 504, 529)),
        httpx2.ConnectError("refused"),
        httpx2.ConnectTimeout("slow"),
        httpx2.ReadError("reset"),
        httpx2.RemoteProtocolError("closed"),
    ],
    ids=repr,
)
async def test_what_passes_is_tried_again(passing: object) -> None:
    server = answering(passing, passing, {"n": 1})

    assert await ask(server) == {"n": 1}
    assert server.pauses == [0.25, 0.5]  # half of 0.5 and of 1


async def test_a_service_that_is_too_slow_is_not_given_the_same_work_again() -> None:
    server = answering(httpx2.ReadTimeout("slow"))

    error = await fault(server)

    assert isinstance(error, UpstreamError)
    assert "did not answer in 120 seconds" in error.detail
    assert len(server.requests) == 1


async def test_after_the_last_attempt_it_is_an_upstream_error() -> None:
    server = answering(*[httpx2.Response(503)] * 9)

    error = await fault(server)

    assert isinstance(error, UpstreamError)
    assert error.detail == "the service of RAG_EMBEDDER for m answers with 503"
    assert len(server.requests) == ATTEMPTS
    assert server.pauses == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(("header", "pause_s"), [("3", 3.25), (GONE, 0.25), ("soon", 0.25), ("-1", 0.25), ("²", 0.25)])
async def test_the_service_is_left_alone_as_long_as_it_asks(header: str, pause_s: float) -> None:
    server = answering(httpx2.Response(429, headers=[(b"Retry-After", header.encode())]), {"n": 1})

    await ask(server)

    assert server.pauses == [pause_s]


@pytest.mark.parametrize("header", ["3600", FAR])
async def test_a_service_that_asks_for_a_long_pause_is_not_waited_for(header: str) -> None:
    server = answering(httpx2.Response(429, headers={"Retry-After": header}))

    assert isinstance(await fault(server), UpstreamError)
    assert server.pauses == []


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_refused_input_is_the_inputs_fault_and_not_sent_again(status: int) -> None:
    server = answering(httpx2.Response(status, json={"error": "600 tokens\nare too many"}))

    error = await fault(server)

    assert isinstance(error, InvalidInput)
    assert f"{status}: " in error.detail
    assert "are too many" in error.detail


@pytest.mark.parametrize(
    ("status", "variable"), [(401, "RAG_EMBEDDER_KEY"), (403, "RAG_EMBEDDER_KEY"), (404, "RAG_EMBEDDER")]
)
async def test_a_service_that_does_not_know_us_names_the_variable(status: int, variable: str) -> None:
    error = await fault(answering(httpx2.Response(status, text="who?")))

    assert isinstance(error, SetupError)
    assert error.detail.endswith(f"check {variable}")


@pytest.mark.parametrize("status", [301, 402, 409, 451])
async def test_any_other_status_is_an_upstream_error_at_once(status: int) -> None:
    server = answering(httpx2.Response(status, text="no"))

    assert isinstance(await fault(server), UpstreamError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"n": "many"}', b"", b"\xff"])
async def test_an_answer_of_another_shape_is_an_upstream_error(content: bytes) -> None:
    error = await fault(answering(httpx2.Response(200, content=content)))

    assert isinstance(error, UpstreamError)
    assert "cannot be used" in error.detail
    assert error.__cause__ is None


@pytest.mark.parametrize(
    "reply",
    [
        *(
            httpx2.Response(status, text=f"Incorrect API key provided: {KEY}")
            for status in (400, 401, 403, 404, 409, 500)
        ),
        httpx2.Response(200, text=f'"{KEY}"'),
        httpx2.ConnectError("refused"),
    ],
    ids=repr,
)
async def test_the_key_is_in_no_error(reply: object) -> None:
    error: BaseException | None = await fault(answering(*[reply] * ATTEMPTS))

    while error:
        assert KEY not in f"{error} {error!r} {vars(error)}"
        error = error.__cause__


async def test_the_key_is_in_no_repr() -> None:
    async with answering().open() as service:
        assert KEY not in f"{service!r} {service.address!r} {vars(service)}"


async def test_the_host_is_not_told_to_callers() -> None:
    for reply in (httpx2.Response(400), httpx2.Response(500), httpx2.Response(200, text="?")):
        assert "models.test" not in (await fault(answering(*[reply] * ATTEMPTS))).detail


async def test_half_a_character_is_sent_as_a_question_mark() -> None:
    server = answering({})

    await ask(server, "a\ud800b é")

    assert server.bodies == [{"input": "a?b é"}]
