from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.calls import Call, ChatRequest, Message, Reply, tokens_of
from rag.llm.extractive import ExtractiveModel
from rag.llm.personal import KINDS, personal
from rag.llm.placeholders import growth_by
from rag.llm.redaction import RedactingChat, Restoring, redacted
from rag.values import Chunk, ChunkId, Deadline, DocumentId, Passage, tenant_id
from tests.fakes import FakeChat, FakeReranker

EMAIL, IBAN = "anna.müller@example.org", "DE89 3704 0044 0532 0130 00"
CARD, PHONE = "4111 1111 1111 1111", "+49 30 901820"
VALUES = [EMAIL, IBAN, "GB82WEST12345698765432", CARD, "5500-0000-0000-0004", PHONE, "+1 (415) 555-2671"]
TEXTS = st.lists(
    st.sampled_from([*VALUES, "<EMAIL_1>", "<CARD_2", "<", "see", "at", "\n", ", ", "12"]) | st.text(max_size=6),
    max_size=8,
).map(" ".join)
SHORT = st.lists(
    st.sampled_from(
        ["a@b.c", "x@y.zz,", "+6834002", "4002", "030 901820", PHONE, "+(49)30 12", "|", "2024", "<EMAIL_1>", IBAN,
         "4222222222222", "see", "\n"]
    ),
    max_size=30,
).map(" ".join)  # fmt: skip


class Echo:
    """Replies with the last message, a few characters a piece, and keeps what it was told."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.told: list[Message] = []
        self.closed = False

    async def complete(self, request: ChatRequest, call: Call) -> Reply:
        self.told += request.messages
        return Reply(request.messages[-1].text, "echo", "echo-1")

    async def stream(self, request: ChatRequest, call: Call) -> AsyncGenerator[str | Reply, None]:
        reply = await self.complete(request, call)
        try:
            for at in range(0, len(reply.text), self.size):
                yield reply.text[at : at + self.size]
            yield reply
        finally:
            self.closed = True


def asked(*texts: str, passages: tuple[Passage, ...] = ()) -> ChatRequest:
    messages = tuple(Message("user", text) for text in texts)
    return ChatRequest("answer", "Who pays?", passages, messages, max_tokens=100)


def a_call() -> Call:
    return Call(tenant_id("acme"), Deadline.after(60))


def found(text: str, region: str | None = None) -> list[tuple[str, str]]:
    return [(f.kind, text[f.start : f.end]) for f in personal(text, KINDS, region)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Write to {EMAIL}.", [("email", EMAIL)]),
        ("<mailto:a+b@c-d.co.uk>", [("email", "a+b@c-d.co.uk")]),
        (f"Pay to {IBAN} BIC COBADEFF", [("iban", IBAN)]),
        ("gb82west12345698765432 or NL91ABNA0417164300",
         [("iban", "gb82west12345698765432"), ("iban", "NL91ABNA0417164300")]),
        (f"card {CARD} 12/27", [("card", CARD)]),
        (f"2 {CARD}", [("card", CARD)]),
        (f"ring {PHONE} or +1 (415) 555-2671 now", [("phone", PHONE), ("phone", "+1 (415) 555-2671")]),
        ("030 901820", []),
    ],
)  # fmt: skip
def test_personal_data_is_found_where_it_stands(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "separator", [" ", "-", ".", "\n", "\r\n", "\u00a0", "\u2007", "\u2009", "\u2010", "\u2011", "\u202f"], ids=ascii
)
@pytest.mark.parametrize(("kind", "value"), [("iban", IBAN), ("card", CARD)])
def test_numbers_are_found_whatever_stands_between_their_groups(kind: str, value: str, separator: str) -> None:
    everywhere, once = value.replace(" ", separator), value.replace(" ", separator, 1)

    assert found(f"Pay {everywhere}. Or {once}.") == [(kind, everywhere), (kind, once)]


@pytest.mark.parametrize(
    "text",
    ["DE88 1704 0044 0532 0130 00", "4111 1111 1111 1112", "HLY-4031 of 2025-01-01 at 07:30", "1,048,576 bytes",
     "user@localhost", "@team", "order 1234567890123", "v1.2.3 and 10.0.0.1", "EUR 15.000,00 for 20 items",
     "2024.12.31\n10.30.15", "4111.1111\n1111.1112", "DE88.1704\n0044.0532.0130.00"],
)  # fmt: skip
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert found(text) == []


def test_numbers_of_a_country_are_found_without_its_code_when_it_is_named() -> None:
    assert found("ring 030 901820", "DE") == [("phone", "030 901820")]


def test_only_the_kinds_that_are_asked_for_are_found() -> None:
    assert [f.kind for f in personal(f"{EMAIL} {CARD} {PHONE}", ["card"])] == ["card"]


def test_equal_values_have_one_placeholder_in_all_texts() -> None:
    told, hidden = redacted([f"{EMAIL} or b@c.de", f"Ask {EMAIL}"], KINDS)

    assert told == ["<EMAIL_1> or <EMAIL_2>", "Ask <EMAIL_1>"]
    assert hidden.restored("<EMAIL_2>, <EMAIL_1>, <EMAIL_3>") == f"b@c.de, {EMAIL}, <EMAIL_3>"


def test_a_placeholder_that_a_text_has_by_itself_is_not_taken() -> None:
    told, hidden = redacted([f"<EMAIL_1> is {EMAIL}"], KINDS)

    assert told == ["<EMAIL_1> is <EMAIL_2>"]
    assert hidden.restored(told[0]) == f"<EMAIL_1> is {EMAIL}"


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_what_is_hidden_is_given_back_as_it_was(texts: list[str]) -> None:
    told, hidden = redacted(texts, KINDS)

    assert [hidden.restored(text) for text in told] == texts
    assert not any(value in text for value in (EMAIL, IBAN) for text in told)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=8))
def test_every_way_of_cutting_an_answer_gives_back_the_same(text: str, cuts: list[int]) -> None:
    [told], hidden = redacted([text], KINDS)
    edges = [0, *sorted(cut % (len(told) + 1) for cut in cuts), len(told)]
    restoring = Restoring(hidden)

    pieces = [restoring.feed(told[a:b]) for a, b in itertools.pairwise(edges)]

    assert "".join(pieces) + restoring.rest() == text


@pytest.mark.parametrize("region", [None, "DE", "NU"])  # Niue's numbers have four digits
@given(SHORT)
def test_no_placeholders_add_more_tokens_than_are_kept_free_for_them(region: str | None, text: str) -> None:
    [told], _ = redacted([text], KINDS, region)

    growth = growth_by(frozenset(KINDS), region)([Message("user", text)])

    assert tokens_of(told) <= tokens_of(text) + growth


def test_nothing_is_kept_free_for_what_is_not_redacted_or_is_no_shorter() -> None:
    told = [Message("user", f"{EMAIL}, {IBAN}, 20 of 300 items, a@b.c")]

    assert [growth_by(kinds, "DE")(told) for kinds in ((), ("iban",), ("email",))] == [0, 0, 5]  # 14 - 5 characters


async def test_that_a_call_is_let_in_is_passed_on() -> None:
    chat = RedactingChat(FakeChat("", "Yes. [1]"), KINDS)

    pieces = [piece async for piece in chat.stream(asked("Hi"), a_call())]

    assert pieces[:2] == ["", "Yes. [1]"]


async def test_a_model_reads_placeholders_and_its_answer_has_the_values() -> None:
    echo = Echo()
    text = f"{EMAIL} pays by {CARD} to {IBAN}, {PHONE}"

    reply = await RedactingChat(echo, KINDS).complete(asked("Hi", text), a_call())

    assert echo.told[-1].text == "<EMAIL_1> pays by <CARD_1> to <IBAN_1>, <PHONE_1>"
    assert reply.text == text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_the_pieces_of_a_stream_have_the_values_however_they_are_cut(size: int) -> None:
    text = f"{EMAIL} pays a < b by {CARD}<"
    chat = RedactingChat(Echo(size), KINDS)

    *pieces, last = [piece async for piece in chat.stream(asked(text), a_call())]

    assert isinstance(last, Reply)
    assert "".join(str(piece) for piece in pieces) == last.text == text


async def test_whoever_leaves_the_stream_ends_the_call() -> None:
    echo = Echo()

    async with aclosing(RedactingChat(echo, KINDS).stream(asked("some long text"), a_call())) as pieces:
        await anext(pieces)

    assert echo.closed


async def test_the_extractive_model_at_the_end_of_the_chain_answers_from_the_text_as_it_is() -> None:
    text = f"Who pays is {EMAIL}."
    ids = ChunkId(UUID(int=1)), DocumentId(UUID(int=0))
    source = Passage(1, (Chunk(*ids, "a.md", "A", (), "prose", text, text, 0, len(text), 0, len(text)),), text, 0)
    chat = RedactingChat(ExtractiveModel(FakeReranker()), KINDS)

    reply = await chat.complete(asked("x", passages=(source,)), a_call())

    assert reply.text == f"Who pays is {EMAIL}. [1]"


def test_long_texts_without_personal_data_take_no_time() -> None:
    assert found("a" * 100_000 + " " + "a." * 50_000 + " 4" * 20_000) == []
