"""Settings, read once at an entry point and passed down; the one reader of the environment."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from rag.calls import Task
from rag.errors import SetupError
from rag.ranking import DEFAULT, MAX_DEPTH, MAX_RERANKED, MAX_WEIGHT, MIN_DEPTH, Ranking, finds_something
from rag.values import Fusion
from rag.wrong_values import words

PREFIX = "RAG_"
DataClass = Annotated[str, Field(min_length=1)]  # a tag of documents
Weight = Annotated[float, Field(ge=0, le=MAX_WEIGHT, allow_inf_nan=False)]
Redacted = Literal["email", "iban", "card", "phone"]
KEY = "[key]"  # the validator's step to a key of an object
DEFAULT_MODEL = "onnx"  # the int8 models of `rag models pull`
EXTRACTIVE = "extractive"  # the target without a network, in every chain that names it

Quirk = Literal[
    "api_key_header",  # Azure: the key in `api-key`
    "max_completion_tokens",  # OpenAI's newer name of max_tokens, behind another host than its own
    "no_temperature",  # reasoning models refuse one
    "no_usage",  # refuses to be asked for usage
    "null_finish",  # some Ollama: the last marker without a reason is a whole answer
    "writes_outside",  # tokens written to the cache are not inside prompt_tokens
]


class Target(BaseModel):
    """A chat model somewhere: where it is, what it can do, and how long to wait for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[\w.\-]{1,64}$", description="its name in chains, keys and the ledger")]
    dialect: Literal["openai", "anthropic", "gemini", "ollama"]
    url: Annotated[str, Field(pattern=r"^https?://", description="the address before the dialect's own path")]
    model: Annotated[str, Field(min_length=1)]
    tier: Annotated[int, Field(ge=1)] = 1
    lane: Literal["local", "api"] = "api"
    context_tokens: Annotated[int, Field(ge=512)] = 8192
    can: frozenset[Literal["json"]] = frozenset({"json"})
    quirks: frozenset[Quirk] = Field(default=frozenset(), description="where a compatible service differs")
    allows: frozenset[str] = Field(default=frozenset(), description="the data classes that may go there")
    connect_timeout_s: Annotated[float, Field(gt=0)] = 2.0
    first_content_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    overflow_depth: Annotated[
        int, Field(ge=1, description="of a local one: requests under way, then the API's turn")
    ] = 4
    overflow_tokens: Annotated[int, Field(ge=1, description="of a local one: longer prompts go to the API first")] = (
        4096
    )


class Price(BaseModel):
    """What a model costs from a day on: US dollars for a million tokens; cached input as much as other, if unsaid."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    valid_from: date = date.min
    input: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
    cache_read: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)] | None = None
    cache_write: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)] | None = None


class Settings(BaseSettings):
    """Every setting of the service. Each is an environment variable `RAG_<NAME>`, but for DATABASE_URL."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", env_ignore_empty=True, frozen=True, hide_input_in_errors=True
    )

    home: Path = Field(default=Path(".rag"), description="where data, models and the embedded database live")
    database_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("DATABASE_URL", "database_url"),
        description="PostgreSQL >= 16 with pgvector >= 0.8.4; unset starts the embedded one",
    )
    migration_database_url: SecretStr | None = Field(
        default=None, description="the owner's connection for migrations, if it is not DATABASE_URL"
    )
    models_dir: Path | None = Field(default=None, description="the model files; by default RAG_HOME/models")
    host: str = Field(default="127.0.0.1", description="the address `rag serve` listens on")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(default=8080, description="the port `rag serve` listens on")
    log_level: str = Field(default="info", description="debug, info, warning or error")

    pool_size: Annotated[int, Field(ge=1, le=100)] = Field(default=8, description="database connections of one process")
    pool_timeout_s: Annotated[float, Field(gt=0)] = Field(
        default=5.0, description="wait for a free connection, then 503"
    )
    embedder: str = Field(
        default=DEFAULT_MODEL,
        description="onnx, a URL, or a sentence-transformers model, of 384 dimensions; several separated by commas",
    )
    embedder_key: SecretStr | None = Field(default=None, description="the key of the embedder's URL, or one for each")
    reranker: str = Field(default=DEFAULT_MODEL, description="onnx, a URL, or a sentence-transformers CrossEncoder")
    reranker_key: SecretStr | None = Field(default=None, description="the key of the reranker's URL")
    threads: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0, description="inference threads; 0 takes one for each core"
    )

    max_body_bytes: Annotated[int, Field(ge=1024)] = Field(default=20 * 1024 * 1024, description="largest request body")
    max_query_chars: Annotated[int, Field(ge=1)] = Field(default=4000, description="longest question")

    exact_below: Annotated[int, Field(ge=0)] = Field(
        default=8_000, description="matching chunks up to which the dense leg compares all instead of using HNSW"
    )
    fusion: Fusion = Field(
        default=DEFAULT.fusion, description="how the legs are fused: scores, or rrf by their ranks alone"
    )
    dense_weight: Weight = Field(default=DEFAULT.dense_weight, description="weight of the dense leg in the fusion")
    lexical_weight: Weight = Field(
        default=DEFAULT.lexical_weight, description="weight of the lexical leg in the fusion"
    )
    search_depth: Annotated[int, Field(ge=MIN_DEPTH, le=MAX_DEPTH)] = Field(
        default=DEFAULT.depth, description="chunks that each leg brings"
    )
    search_deadline_s: Annotated[float, Field(gt=0)] = Field(
        default=DEFAULT.leg_deadline_s, description="time for the legs; then one that is late is left out"
    )
    rerank_top: Annotated[int, Field(ge=0, le=MAX_RERANKED)] = Field(
        default=DEFAULT.rerank_top, description="fused candidates the cross-encoder reads"
    )
    rerank_deadline_s: Annotated[float, Field(ge=0)] = Field(
        default=DEFAULT.rerank_deadline_s, description="time for the cross-encoder; the rest keep their fused order"
    )
    rerank_memory_bytes: Annotated[int, Field(ge=0)] = Field(
        default=16 * 1024 * 1024, description="memory for the cross-encoder's scores, 320 bytes a pair"
    )
    rerank_weight: Weight = Field(default=DEFAULT.rerank_weight, description="weight of the cross-encoder in the blend")
    fused_weight: Annotated[Weight, Field(gt=0)] = Field(
        default=DEFAULT.fused_weight, description="weight of the fused scores in the blend"
    )

    answer_min_support: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.62, description="least support, 0 to 1, below which the answer is no_evidence"
    )
    chat_targets: Annotated[tuple[Target, ...], NoDecode] = Field(
        default=(), description="the chat models, a JSON list"
    )
    chat_keys: Annotated[dict[str, SecretStr], NoDecode] = Field(
        default={}, description="their keys, a JSON object by target"
    )
    chat_chains: Annotated[dict[Task, tuple[str, ...]], NoDecode] = Field(
        default={},
        validate_default=True,
        description="the targets to try for each task, in order, a JSON object; sentences answer if no chain does",
    )
    expansion: Literal["asked", "always"] = Field(
        default="asked",
        description="questions that the chain for hyde, if any, finds other words for: of high recall, or all",
    )
    data_classes: Annotated[frozenset[DataClass], NoDecode] = Field(
        default=frozenset(), description="tags of documents that only targets which allow them may read"
    )
    prices: Annotated[dict[str, tuple[Price, ...]], NoDecode] = Field(
        default={}, description="prices of models by target or model, a JSON object or a file with one"
    )
    redact: Annotated[frozenset[Redacted], NoDecode] = Field(
        default=frozenset(), description="what chat models are not told: email, iban, card, phone"
    )
    redact_region: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = Field(
        default=None, description="the country whose phone numbers are known without a +"
    )
    answer_concurrency: Annotated[int, Field(ge=1)] = Field(
        default=64, description="answers that a process makes at once"
    )
    answer_queue: Annotated[int, Field(ge=0)] = Field(
        default=128, description="answers that wait for their turn; then 429"
    )
    answer_tenant_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5, description="the most of both that one tenant may have"
    )
    answer_cache: Literal["off", "exact", "semantic"] = Field(
        default="exact",
        description="whether generated answers are given again: no, for the same question, for similar ones",
    )
    answer_cache_bytes: Annotated[int, Field(ge=0)] = Field(
        default=16 * 1024 * 1024, description="kept answers of one tenant; the oldest go first"
    )
    answer_cache_ttl_s: Annotated[float, Field(gt=0)] = Field(default=86_400.0, description="how long one is kept")
    answer_cache_distance: Annotated[float, Field(ge=0, le=2)] = Field(
        default=0.05, description="cosine distance up to which a question may be a similar one"
    )
    answer_cache_margin: Annotated[float, Field(ge=0, le=2)] = Field(
        default=0.02, description="how much farther every question with another answer must be"
    )
    answer_wait_s: Annotated[float, Field(gt=0)] = Field(default=10.0, description="the longest such wait, then 429")
    section_chars: Annotated[int, Field(ge=200)] = Field(
        default=1600, description="characters of the parent section given to the model around a hit"
    )
    request_timeout_s: Annotated[float, Field(gt=0)] = Field(default=30.0, description="time for one request")

    @field_validator("redact", "data_classes", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("chat_chains")
    @classmethod
    def _answering(cls, value: dict[Task, tuple[str, ...]]) -> dict[Task, tuple[str, ...]]:
        return {"answer": (EXTRACTIVE,), **value}

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.lower() not in {"debug", "info", "warning", "error"}:
            raise ValueError("must be debug, info, warning or error")
        return value.lower()

    @field_validator("prices", mode="before")
    @classmethod
    def _read_prices(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value if value.lstrip().startswith("{") else Path(value).read_bytes())
        except OSError as exc:
            raise ValueError(f"no JSON object, and no file that can be read: {exc.strerror}") from exc

    @field_validator("chat_targets", "chat_keys", "chat_chains", mode="before")
    @classmethod
    def _read_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value)
        except ValueError as exc:
            raise ValueError(f"no JSON: {exc}") from None

    @model_validator(mode="after")
    def _one_leg_counts(self) -> Settings:
        if not finds_something(self.dense_weight, self.lexical_weight):
            raise ValueError("RAG_DENSE_WEIGHT and RAG_LEXICAL_WEIGHT are both 0")
        return self

    @model_validator(mode="after")
    def _can_expand(self) -> Settings:
        if self.expansion == "always" and "hyde" not in self.chat_chains:
            raise ValueError("RAG_EXPANSION is always, and RAG_CHAT_CHAINS has no chain for hyde")
        return self

    @property
    def models(self) -> Path:
        """The folder of the model files."""
        return self.models_dir or self.home / "models"

    @property
    def ranking(self) -> Ranking:
        """How the searches of a tenant are ranked that has no values of its own."""
        return Ranking(
            rerank_top=self.rerank_top,
            rerank_deadline_s=self.rerank_deadline_s,
            rerank_weight=self.rerank_weight,
            fused_weight=self.fused_weight,
            dense_weight=self.dense_weight,
            lexical_weight=self.lexical_weight,
            depth=self.search_depth,
            leg_deadline_s=self.search_deadline_s,
            fusion=self.fusion,
        )

    @property
    def inference_threads(self) -> int:
        """The number of inference threads, at least one."""
        return self.threads or os.cpu_count() or 1


def load_settings() -> Settings:
    """The settings of this process.

    Raises SetupError naming each variable that is unknown or has a wrong value.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields if name != "database_url"}
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    strange = f"unknown setting {', '.join(unknown)}; the README lists the settings" if unknown else ""
    try:
        settings = Settings()
    except ValidationError as exc:
        faults = "; ".join(map(_fault, exc.errors()))
        raise SetupError(f"wrong setting: {faults}" + (f"; {strange}" if strange else "")) from exc
    if strange:
        raise SetupError(strange)
    return settings


def _fault(error: ErrorDetails) -> str:
    """The variable, where in it, and what is wrong there; never a value, nor what may be a key by mistake."""
    head, *inside = error["loc"] or [""]
    name = [f"{PREFIX}{head}".upper()] if head else []
    place = [f"entry {step + 1}" if isinstance(step, int) else step for step in inside if step != KEY]
    if head == "chat_targets" and place:
        place[0] = place[0].replace("entry", "target")
    said = words(error)
    shown = [] if head == "chat_keys" else place
    return ": ".join([*name, *shown, said if error["type"] == "value_error" else f"it {said}"])
