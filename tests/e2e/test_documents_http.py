from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.e2e.conftest import MARKDOWN, Caller, OpenFake, document

pytestmark = pytest.mark.usefixtures("quiet_log")

TEXT = "# Boilers\n\nThe boiler of house 12 is serviced each October.\n"
UPLOADS: dict[str, dict[str, Any]] = {
    "raw": {"content": TEXT.encode(), "headers": MARKDOWN},
    "raw with charset": {"content": TEXT.encode(), "headers": {"Content-Type": "Text/Markdown; charset=utf-8"}},
    "plain text": {"content": TEXT.encode(), "headers": {"Content-Type": "text/plain"}},
    "json": {"json": {"text": TEXT}},
    "base64": {"json": {"content_base64": base64.b64encode(TEXT.encode()).decode()}},
}


@pytest.mark.parametrize("request_", UPLOADS.values(), ids=list(UPLOADS))
async def test_an_upload_is_found_once_its_job_is_done_until_it_is_deleted(
    newcomer: Caller, request_: dict[str, Any]
) -> None:
    job = await newcomer.put("houses/12.md", **request_)

    assert (job["state"], job["error"], job["unchanged"], job["attempts"]) == ("done", None, None, 1)
    assert job["chunks"] >= 1
    stored = await newcomer.document("houses/12.md")
    assert (stored["status"], stored["document_id"]) == ("ready", job["document_id"])
    assert await newcomer.found("boiler service") == ["houses/12.md"] * job["chunks"]
    assert (await newcomer.query("When is the boiler of house 12 serviced?"))["status"] == "answered"

    assert (await newcomer.send("DELETE", document("houses/12.md"))).status_code == 204

    assert await newcomer.found("boiler service") == []
    assert (await newcomer.query("When is the boiler of house 12 serviced?"))["status"] == "no_evidence"
    assert (await newcomer.send("GET", document("houses/12.md"))).status_code == 404
    assert (await newcomer.send("DELETE", document("houses/12.md"))).status_code == 404


async def test_the_same_content_again_is_nothing_to_do_and_says_so(newcomer: Caller) -> None:
    first = await newcomer.put("a.md", json={"text": TEXT})
    version = (await newcomer.search("boiler"))["index_version"]

    again = await newcomer.put("a.md", json={"text": TEXT})

    assert (again["state"], again["chunks"]) == ("done", 0)
    assert "same content" in again["unchanged"]
    assert again["document_id"] == first["document_id"]
    assert (await newcomer.search("boiler"))["index_version"] == version


async def test_what_the_body_states_of_a_document_is_stored(newcomer: Caller) -> None:
    stated = {
        "title": "Boiler 12", "doc_type": "manual", "source": "wiki", "lang": "de", "tags": ["heat", "wärme"],
        "metadata": {"floor": 3, "old": True, "k": "v", "x": 1.5}, "valid_from": "2025-01-01",
    }  # fmt: skip

    await newcomer.put("a.md", json={"text": TEXT, **stated})

    stored = await newcomer.document("a.md")
    assert {name: stored[name] for name in stated} == {**stated, "valid_from": "2025-01-01T00:00:00Z"}
    assert (stored["valid_to"], stored["acl"]) == (None, [])


async def test_a_backslash_is_an_ordinary_character_in_what_is_stated(newcomer: Caller) -> None:
    accepted = await newcomer.send("PUT", document("a.md"), json={"text": TEXT, "title": r"the byte \x01"})

    assert accepted.status_code == 202


async def test_the_letters_of_an_escaped_nul_are_no_nul(newcomer: Caller) -> None:
    accepted = await newcomer.send("PUT", document("a.md"), json={"text": TEXT, "title": r"the byte \x00"})

    assert accepted.status_code == 202


@pytest.mark.parametrize("content", [b"# A\n\nNUL \0 here", b"\xff\xfeA"])
async def test_a_document_that_cannot_be_read_fails_its_job_with_the_reason(newcomer: Caller, content: bytes) -> None:
    job = await newcomer.put("bad.md", content=content, headers=MARKDOWN)

    assert (job["state"], job["chunks"]) == ("failed", None)
    assert job["error"]["code"] == "invalid_input"
    assert "bad.md" in job["error"]["detail"]
    told = (await newcomer.send("GET", document("bad.md"))).json()
    assert (told["status"], told["job_id"], told["detail"]) == ("failed", job["job_id"], job["error"]["detail"])
    assert "text" not in told


async def test_a_failed_upload_leaves_the_old_version(newcomer: Caller) -> None:
    await newcomer.put("a.md", json={"text": TEXT})
    before = await newcomer.document("a.md")

    await newcomer.put("a.md", content=b"\0", headers=MARKDOWN)

    assert await newcomer.document("a.md") == before
    assert await newcomer.found("boiler service")


async def test_a_superseded_policy_answers_for_its_own_time_only(newcomer: Caller) -> None:
    for begins, days in (("2024-01-01", "five"), ("2025-06-01", "nine")):
        text = f"# Refunds\n\nA refund takes {days} business days."
        await newcomer.put("refunds.md", json={"text": text, "valid_from": begins, "keep_history": True})

    today = await newcomer.query("How many business days does a refund take?")
    then = await newcomer.query("How many business days does a refund take?", as_of="2024-05-01")

    assert ("nine" in today["answer"], "five" in today["answer"]) == (True, False)
    assert ("nine" in then["answer"], "five" in then["answer"]) == (False, True)
    for answer in (today, then):
        [citation] = answer["citations"]
        path = f"{document('refunds.md')}?version={citation['version']}"
        stored = (await newcomer.send("GET", path)).json()
        assert stored["document_id"] == citation["document_id"]
        assert stored["text"][citation["start"] : citation["end"]] == citation["quote"]


async def test_the_same_text_in_two_documents_is_one_hit_with_both(newcomer: Caller) -> None:
    for name in ("a.md", "copies/a.md"):
        await newcomer.put(name, json={"text": TEXT})

    hits = (await newcomer.search("boiler service"))["hits"]

    assert [hit["external_id"] for hit in hits] == ["a.md"] * len(hits)
    assert [[place["external_id"] for place in hit["also_in"]] for hit in hits] == [["copies/a.md"]] * len(hits)


async def test_documents_are_listed_in_pages(newcomer: Caller) -> None:
    for name in ("c.md", "a.md", "b/x.md"):
        await newcomer.put(name, json={"text": TEXT, "title": name})

    first = (await newcomer.send("GET", "/v1/documents", params={"limit": 2})).json()
    second = (await newcomer.send("GET", "/v1/documents", params={"limit": 2, "after": first["next"]})).json()

    assert [d["external_id"] for d in first["documents"]] == ["a.md", "b/x.md"]
    assert [d["external_id"] for d in second["documents"]] == ["c.md"]
    assert (first["next"], second["next"]) == ("b/x.md", None)
    assert all(d["text"] is None and d["chunks"] >= 1 for d in first["documents"])


async def test_documents_are_listed_by_prefix_or_folder(newcomer: Caller) -> None:
    for name in ("guides/a.md", "guides/b.md", "news.md"):
        await newcomer.put(name, json={"text": TEXT})

    async def page(**params: Any) -> tuple[list[str], str | None]:
        body = (await newcomer.send("GET", "/v1/documents", params=params)).json()
        return [document["external_id"] for document in body["documents"]], body["next"]

    assert await page(prefix="guides/", limit=1) == (["guides/a.md"], "guides/a.md")
    assert await page(prefix="guides/", after="guides/a.md") == (["guides/b.md"], None)
    assert await page(prefix="guides_") == ([], None)
    assert await page(folder="default") == ([], None)  # what comes over HTTP is in none
    assert (await newcomer.document("news.md"))["folder"] is None
    nul = await newcomer.send("GET", "/v1/documents", params={"prefix": "a\0"})
    assert (nul.status_code, nul.json()["code"]) == (422, "invalid_input")


async def test_a_document_with_groups_is_listed_and_read_only_by_their_members(acme: Caller, acme_hr: Caller) -> None:
    async def names(caller: Caller) -> set[str]:
        return {d["external_id"] for d in (await caller.send("GET", "/v1/documents")).json()["documents"]}

    assert await names(acme_hr) - await names(acme) == {"hr/salaries.md"}
    assert (await acme.send("GET", document("hr/salaries.md"))).status_code == 404
    assert (await acme_hr.document("hr/salaries.md"))["acl"] == ["hr", "board"]


@pytest.mark.parametrize("external_id", ["a b.md", "ä/ö ü.md", "a%2Fb.md", "日本/語.md", "x" * 512, "a?b#c.md", "-"])
async def test_any_sane_external_id_comes_back_as_it_was(newcomer: Caller, external_id: str) -> None:
    await newcomer.put(external_id, json={"text": TEXT})

    assert (await newcomer.document(external_id))["external_id"] == external_id
    assert set(await newcomer.found("boiler")) == {external_id}


async def test_a_waiting_job_can_be_cancelled_once(fake_service: OpenFake) -> None:
    async with fake_service() as fake:  # no worker runs beside it
        caller = await fake.caller()
        accepted = (await caller.send("PUT", document("a.md"), json={"text": TEXT})).json()
        path = f"/v1/jobs/{accepted['job_id']}"
        waiting = (await caller.send("GET", path)).json()

        cancelled = await caller.send("POST", f"{path}/cancel")
        again = await caller.send("POST", f"{path}/cancel")

    assert (waiting["state"], waiting["attempts"], waiting["finished_at"]) == ("queued", 0, None)
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


async def test_a_newer_upload_takes_the_place_of_a_waiting_one(fake_service: OpenFake) -> None:
    async with fake_service() as fake:
        caller = await fake.caller()
        first, second = [
            (await caller.send("PUT", document("a.md"), json={"text": text})).json() for text in ("# One", "# Two")
        ]

        states = [(await caller.send("GET", f"/v1/jobs/{job['job_id']}")).json() for job in (first, second)]

    assert first["document_id"] == second["document_id"]
    assert [(job["state"], job["stage"]) for job in states] == [("cancelled", "superseded"), ("queued", "queued")]


@pytest.mark.parametrize("job", ["8b0f6c1e-5f0d-4c0e-9d57-0a4f6f1f2a63", "00000000-0000-0000-0000-000000000000"])
async def test_an_unknown_job_is_not_found(acme: Caller, job: str) -> None:
    for method, path in (("GET", f"/v1/jobs/{job}"), ("POST", f"/v1/jobs/{job}/cancel")):
        assert (await acme.send(method, path)).status_code == 404
