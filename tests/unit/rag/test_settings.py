from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from rag.errors import SetupError
from rag.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAG_") or name == "DATABASE_URL"]:
        monkeypatch.delenv(name)


def test_without_variables_the_defaults_hold() -> None:
    settings = load_settings()

    assert settings.database_url is None
    assert settings.models == Path(".rag/models")
    assert settings.port == 8080
    assert settings.inference_threads >= 1


def test_variables_are_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_HOME", "/data")
    monkeypatch.setenv("RAG_THREADS", "3")
    monkeypatch.setenv("DATABASE_URL", "postgresql://app@db/rag")

    settings = load_settings()

    assert settings.models == Path("/data/models")
    assert settings.inference_threads == 3
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://app@db/rag"


def test_a_models_folder_of_its_own_comes_before_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_HOME", "/data")
    monkeypatch.setenv("RAG_MODELS_DIR", "/models")

    assert load_settings().models == Path("/models")


@pytest.mark.parametrize("name", ["RAG_PORTS", "RAG_DATABASE_URL", "RAG_"])
def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")

    with pytest.raises(SetupError, match=f"unknown setting {name}; the README lists the settings"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAG_PORT", "http"),
        ("RAG_PORT", "70000"),
        ("RAG_POOL_SIZE", "0"),
        ("RAG_POOL_TIMEOUT_S", "0"),
        ("RAG_RERANK_TOP", "101"),
        ("RAG_RERANK_WEIGHT", "-1"),
        ("RAG_SECTION_CHARS", "10"),
        ("RAG_SEARCH_DEPTH", "9"),
        ("RAG_SEARCH_DEADLINE_S", "0"),
        ("RAG_MAX_BODY_BYTES", "1"),
        ("RAG_LOG_LEVEL", "loud"),
        ("RAG_REQUEST_TIMEOUT_S", "nan"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SetupError, match=f"wrong setting: {name}: "):
        load_settings()


def test_an_unknown_variable_hides_no_wrong_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PORTS", "1")
    monkeypatch.setenv("RAG_SEARCH_DEPTH", "3")

    with pytest.raises(SetupError, match=r"wrong setting: RAG_SEARCH_DEPTH: .*; unknown setting RAG_PORTS"):
        load_settings()


def test_what_is_no_list_is_said_in_the_words_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PRICES", '{"qwen3": 3}')

    with pytest.raises(SetupError, match="wrong setting: RAG_PRICES: qwen3: it must be a list"):
        load_settings()


@pytest.mark.parametrize("name", ["RAG_CHAT_KEYS", "RAG_CHAT_TARGETS", "RAG_CHAT_CHAINS"])
@pytest.mark.parametrize(
    "value", ["{'p1': 'hunter2'}", '{"p1": "hunter2"', '{"p1": ["hunter2"]}', '"hunter2"', "hunter2"]
)
def test_a_setting_that_is_no_json_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SetupError, match=f"wrong setting: {name}: ") as caught:
        load_settings()

    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_every_wrong_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PORT", "http")
    monkeypatch.setenv("RAG_POOL_SIZE", "many")

    with pytest.raises(SetupError, match=r"RAG_PORT.*RAG_POOL_SIZE"):
        load_settings()


@pytest.mark.parametrize(
    "weights",
    [
        {"RERANK": "inf"},
        {"FUSED": "inf"},
        {"RERANK": "0", "FUSED": "0"},
        {"DENSE": "nan"},
        {"DENSE": "0", "LEXICAL": "0"},
    ],
)
def test_weights_that_no_search_can_use_are_refused(monkeypatch: pytest.MonkeyPatch, weights: dict[str, str]) -> None:
    for name, value in weights.items():
        monkeypatch.setenv(f"RAG_{name}_WEIGHT", value)

    with pytest.raises(SetupError):
        load_settings()


def test_the_log_level_may_be_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LOG_LEVEL", "WARNING")

    assert load_settings().log_level == "warning"


def test_passwords_are_masked_wherever_settings_are_shown() -> None:
    settings = Settings(
        database_url="postgresql://app:hunter2@db/rag", migration_database_url="postgresql://o:hunter2@db"
    )

    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json()}"


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


def test_what_is_hidden_from_chat_models_is_a_list_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDACT", "email, iban")
    assert load_settings().redact == {"email", "iban"}

    monkeypatch.setenv("RAG_REDACT", "email,names")
    with pytest.raises(SetupError, match="RAG_REDACT"):
        load_settings()


def test_questions_are_answered_by_sentences_where_no_chain_says_otherwise() -> None:
    judged = Settings(chat_chains={"judge": ("a",)})

    assert judged.chat_chains == {"answer": ("extractive",), "judge": ("a",)}
    assert Settings().chat_chains == Settings(chat_chains={}).chat_chains == {"answer": ("extractive",)}
    assert Settings(chat_chains={"answer": ("a",)}).chat_chains == {"answer": ("a",)}


def test_what_is_wrong_inside_a_setting_is_said_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_CHAT_TARGETS", '[{"name": "a", "dialect": "openai", "url": "http://127.0.0.1"}]')

    with pytest.raises(SetupError, match=r"^wrong setting: RAG_CHAT_TARGETS: target 1: model: it is missing$"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("RAG_CHAT_CHAINS", '{"answr": ["a"]}', "answr: it must be 'answer', 'rewrite', 'hyde' or 'judge'"),
        ("RAG_CHAT_CHAINS", '{"hyde": "a"}', "hyde: it must be a list"),
        ("RAG_REDACT", "email,names", "entry 2: it must be 'email', 'iban', 'card' or 'phone'"),
        (
            "RAG_CHAT_TARGETS",
            '[{"name": "a", "dialect": "openai", "url": "http://x", "model": "m", "can": ["fly"]}]',
            "target 1: can: entry 1: it must be 'json'",
        ),
        ("RAG_CHAT_KEYS", '{"hunter2": 1}', "it must be a text"),
        ("RAG_CHAT_TARGETS", "[7]", "target 1: it must be an object"),
        ("RAG_PRICES", '{"m": [{"input": -1, "output": 1}]}', "m: entry 1: input: it must be 0 or more"),
        ("RAG_POOL_TIMEOUT_S", "0", "it must be more than 0"),
        ("RAG_PORT", "http", "it must be a whole number"),
    ],
)
def test_a_wrong_value_is_told_in_our_words_with_the_choices(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SetupError) as caught:
        load_settings()

    assert caught.value.detail == f"wrong setting: {name}: {said}"


def test_every_question_can_only_be_expanded_by_a_model_that_is_named_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EXPANSION", "always")

    with pytest.raises(SetupError, match="RAG_CHAT_CHAINS has no chain for hyde"):
        load_settings()
