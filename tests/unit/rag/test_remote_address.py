from __future__ import annotations

import pytest

from rag.errors import SetupError
from rag.inference.address import is_address, read_address
from rag.inference.opening import open_embedders, open_reranker
from rag.inference.remote import EMBEDDER_OPTIONS
from rag.settings import Settings


def read(text: str, key: str = "") -> object:
    return read_address(text, "RAG_EMBEDDER", key=key, known=EMBEDDER_OPTIONS)


def test_a_url_says_where_which_model_and_how() -> None:
    text = "https://host:8443/v1/?model=org/e5&query_prefix=query:+&document.task=d&max_tokens=256"

    address = read_address(text, "RAG_EMBEDDER", key="k", known=EMBEDDER_OPTIONS)

    assert (address.url, address.model) == ("https://host:8443/v1", "org/e5")
    assert address.options["query_prefix"] == "query: "
    assert (address.fields("document"), address.fields("query")) == ({"task": "d"}, {})
    assert (address.number("max_tokens"), address.number("dimensions")) == (256, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://host/v1", "say which model"),
        ("https://host/v1?model=", "say which model"),
        ("https://host/v1?model=m&prefix=x", "unknown option prefix; there are model, dimensions, document., "),
        ("https://host/v1?model=m&query.=x", "unknown option query."),
        ("https://host/v1?model=m&max_tokens=1&max_tokens=2", "given twice"),
        ("https://host/v1?model=m&model=n", "given twice"),
        ("https:///v1?model=m", "is not a URL"),
        ("https://host:port/v1?model=m", "is not a URL"),
        ("https://[::1/v1?model=m", "is not a URL"),
        ("https://host/v1#model=m", "is not a URL"),
        ("https://:hunter2@host/v1?model=m", "the key belongs in RAG_EMBEDDER_KEY"),
        ("https://host/v1?model=m&api_key=hunter2", "unknown option api_key"),
    ],
)
def test_a_url_that_cannot_be_used_is_said_without_its_values(text: str, reason: str) -> None:
    with pytest.raises(SetupError, match=reason.replace(".", r"\.")) as caught:
        read(text)

    assert "hunter2" not in caught.value.detail


@pytest.mark.parametrize("key", ["hunter2\n", "hunter2 x", "hünter2"])
def test_a_key_that_no_header_carries_is_refused_unsaid(key: str) -> None:
    with pytest.raises(SetupError, match="RAG_EMBEDDER_KEY has characters") as caught:
        read("https://host/v1?model=m", key)

    assert "nter2" not in caught.value.detail


@pytest.mark.parametrize("number", ["0", "-1", "many", "1.5", "", "²"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    address = read_address(f"https://h/v1?model=m&max_tokens={number}", "RAG_EMBEDDER", key="", known=EMBEDDER_OPTIONS)

    with pytest.raises(SetupError, match="max_tokens must be a whole number above zero"):
        address.number("max_tokens")


def test_names_of_models_are_not_addresses() -> None:
    assert [is_address(name) for name in ("onnx", "org/model", "/folder", "http://h", "https://h")] == [
        False, False, False, True, True,
    ]  # fmt: skip


async def test_every_url_has_a_key_of_its_own() -> None:
    settings = Settings(embedder="http://a.test/v1?model=m,http://b.test/v1?model=n", embedder_key="hunter2")

    with pytest.raises(SetupError, match="RAG_EMBEDDER_KEY lists 1 keys for 2 URLs") as caught:
        async with open_embedders(settings):
            pass

    assert "hunter2" not in f"{caught.value.detail} {settings!r}"


async def test_a_wrong_reranker_url_stops_the_start() -> None:
    with pytest.raises(
        SetupError, match="RAG_RERANKER: unknown option max_tokens; there are model, scores, texts_field"
    ):
        async with open_reranker(Settings(reranker="http://a.test/v1?model=m&max_tokens=3", reranker_key="k")):
            pass
