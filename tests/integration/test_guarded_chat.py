from __future__ import annotations

from rag.answering.prompting import grounded
from rag.calls import Call
from rag.settings import Settings
from rag.store.engine import Database
from rag.telemetry import Metrics
from rag.values import Deadline
from rag.wiring import guarded
from tests.conftest import MakeTenant
from tests.fakes import FakeChat


async def test_a_model_is_not_told_what_is_to_be_redacted_and_the_answer_has_it(
    database: Database, make_tenant: MakeTenant
) -> None:
    chat = FakeChat("Write to [email-1].")
    call = Call(await make_tenant(), Deadline.after(60))
    request = grounded("Is jo@example.com right?", (), max_tokens=10)

    async with guarded(chat, Settings(redact=frozenset({"email"})), database, Metrics()) as model:
        await model.complete(request, call)

    assert "jo@example.com" in request.messages[-1].text
    assert "jo@example.com" not in "".join(message.text for message in chat.requests[0].messages)
