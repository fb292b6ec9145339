from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import Caller

pytestmark = pytest.mark.usefixtures("quiet_log")

TEXT = "".join(f"# Part {n}\n\nBoiler {n} stands in the cellar of house {n}.\n\n" for n in range(5))


def positions(page: dict[str, Any]) -> list[int]:
    return [chunk["position"] for chunk in page["chunks"]]


async def test_a_document_is_shown_as_it_was_cut(newcomer: Caller) -> None:
    job = await newcomer.put("boilers.md", json={"text": TEXT})

    page = await newcomer.chunks("boilers.md")

    text = (await newcomer.document("boilers.md"))["text"]
    assert (positions(page), page["next"]) == ([0, 1, 2, 3, 4], None)
    assert job["chunks"] == 5
    assert all(chunk["text"] == text[chunk["start"] : chunk["end"]] for chunk in page["chunks"])
    third = page["chunks"][2]
    assert (third["kind"], third["breadcrumb"]) == ("paragraph", ["Part 0", "Part 2"])
    assert third["indexed"] == "Part 0 > Part 2\nBoiler 2 stands in the cellar of house 2."


async def test_its_chunks_are_the_ones_that_are_found(newcomer: Caller) -> None:
    await newcomer.put("boilers.md", json={"text": TEXT})

    shown = {chunk["chunk_id"] for chunk in (await newcomer.chunks("boilers.md"))["chunks"]}

    hits = (await newcomer.search("boiler in the cellar", top_k=100))["hits"]
    assert {hit["chunk_id"] for hit in hits} == shown


async def test_chunks_are_listed_in_pages(newcomer: Caller) -> None:
    await newcomer.put("boilers.md", json={"text": TEXT})

    first = await newcomer.chunks("boilers.md", limit=3)
    second = await newcomer.chunks("boilers.md", limit=3, after=first["next"])
    beyond = await newcomer.chunks("boilers.md", after=99)

    assert (positions(first), first["next"]) == ([0, 1, 2], 2)
    assert (positions(second), second["next"]) == ([3, 4], None)
    assert beyond == {"chunks": [], "next": None}


async def test_a_new_version_is_shown_instead_of_the_old_one(newcomer: Caller) -> None:
    await newcomer.put("boilers.md", json={"text": TEXT})

    await newcomer.put("boilers.md", json={"text": "# Sold\n\nThe boilers are gone.\n"})

    assert [chunk["text"] for chunk in (await newcomer.chunks("boilers.md"))["chunks"]] == ["The boilers are gone."]


async def test_chunks_of_a_document_with_groups_are_shown_only_to_their_members(acme: Caller, acme_hr: Caller) -> None:
    stranger = await acme.send("GET", "/v1/chunks", params={"external_id": "hr/salaries.md"})

    assert (stranger.status_code, stranger.json()["code"]) == (404, "not_found")
    assert "B7" in (await acme_hr.chunks("hr/salaries.md"))["chunks"][0]["text"]


async def test_an_unknown_document_has_no_page(newcomer: Caller) -> None:
    response = await newcomer.send("GET", "/v1/chunks", params={"external_id": "none.md"})

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("page", [{"limit": 0}, {"limit": 1001}, {"after": -2}, {"after": 2**31}, {"after": "x"}])
async def test_a_page_that_cannot_be_is_refused(acme: Caller, page: dict[str, Any]) -> None:
    response = await acme.send("GET", "/v1/chunks", params={"external_id": "guides/pump.md", **page})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("named", [{}, {"external_id": ""}, {"external_id": "a\0b"}, {"external_id": "x" * 513}])
async def test_an_id_that_no_document_can_have_is_refused(acme: Caller, named: dict[str, str]) -> None:
    assert (await acme.send("GET", "/v1/chunks", params=named)).status_code == 422
