"""Embedder and cross-encoder over HTTP: `POST /embeddings` as OpenAI has it, `POST /rerank` as Cohere and TEI do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter

from rag.errors import InvalidInput, SetupError
from rag.inference.address import Address
from rag.inference.model_service import ModelService
from rag.inference.tokens import count, estimate, open_tokenizer
from rag.protocols import Score, Vectors
from rag.values import DIMS, Deadline

DEFAULT_MAX_TOKENS = 512
BATCH_TEXTS = 32  # text-embeddings-inference takes no more unless it is told to
BATCH_CHARS = 16_000  # about 4,000 tokens: seconds of a CPU
AT_A_TIME = 2  # batches in flight: one is computed while the other travels
MAX_QUERY_CHARS = 512  # of a pair: a long question may not crowd out the text it is compared with
NEAREST_TO_CERTAIN = 1e-7  # a probability of 1 has no logit

EMBEDDER_OPTIONS = (
    "dimensions", "document.", "document_prefix", "max_tokens", "query.", "query_prefix", "tokenizer",
)  # fmt: skip
IN_DOCUMENTS = ("dimensions", "document_prefix")  # with the document's fields, what stored vectors depend on
RERANKER_OPTIONS = ("scores", "texts_field")
KINDS = ("logits", "probabilities")


class _Row(BaseModel):
    index: int


class _Embedding(_Row):
    embedding: list[float]


class _Score(_Row):
    score: float = Field(validation_alias=AliasChoices("relevance_score", "score"))


class _Embeddings(BaseModel):
    data: list[_Embedding]


class _Scores(BaseModel):
    results: list[_Score]


_EMBEDDINGS = TypeAdapter(_Embeddings)
_SCORES = TypeAdapter(Annotated[_Scores | list[_Score], Field(union_mode="left_to_right")])

RowT = TypeVar("RowT", bound=_Row)


class RemoteEmbedder:
    """Unit vectors of 384 numbers from a service; a text is sent as far as the model reads."""

    dims = DIMS
    langs: frozenset[str] | None = None

    def __init__(self, service: ModelService) -> None:
        """Ask *service*, as the options of its address say.

        Raises SetupError or ModelMissing when they cannot be used.
        """
        self._service = service
        self._address = address = service.address
        document_fields = [name for name in address.options if name.startswith("document.")]
        self.name = address.name([*IN_DOCUMENTS, *document_fields])
        self.max_tokens = address.number("max_tokens") or DEFAULT_MAX_TOKENS
        self._dimensions = address.number("dimensions")
        self._count = _counter(address)
        self._room = asyncio.Semaphore(AT_A_TIME)  # of documents only: a question waits for no batch

    async def check(self) -> None:
        """Raises SetupError when the vectors do not fit the index, or the service is not as the settings say.

        A question and a document are tried, since they may be sent with different prefixes and fields.
        """
        for purpose in ("query", "document"):
            try:
                [row] = await self._rows(["ready?"], purpose)
            except InvalidInput as exc:
                raise SetupError(exc.detail) from exc
            if len(row) != DIMS:
                raise SetupError(
                    f"{self._address.setting}: {self._address.model} gives vectors of {len(row)}, the index has {DIMS};"
                    " some models take the option dimensions"
                )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text with the document's prefix, exact with a tokenizer, else hardly ever too few."""
        return self._count([self._prefixed(text, "document") for text in texts])

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector for each text; what lies beyond the model's tokens is not sent."""
        vectors = np.zeros((len(texts), DIMS), dtype=np.float32)

        async def fill(batch: Sequence[int]) -> None:
            async with self._room:
                vectors[batch] = await self._vectors([texts[n] for n in batch], "document")

        await _together(map(fill, batches(texts)))
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        [vector] = await self._vectors([text], "query")
        if not vector.any():
            raise self._service.nonsense("the question's vector is zero")
        return np.asarray(vector)

    async def _vectors(self, texts: Sequence[str], purpose: str) -> Vectors:
        rows = await self._rows(texts, purpose)
        if rows.shape[1] != DIMS:
            raise self._service.nonsense(f"vectors of {rows.shape[1]}, not {DIMS}")
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)

    async def _rows(self, texts: Sequence[str], purpose: str) -> Vectors:
        """What the service makes of *texts*, in their order, whatever the length of its vectors."""
        sent = [self._cut(self._prefixed(text, purpose)) for text in texts]
        body: dict[str, object] = {"model": self._address.model, "input": sent, **self._address.fields(purpose)}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        reply = await self._service.post("/embeddings", body, _EMBEDDINGS)
        found = [row.embedding for row in _in_order(self._service, reply.data, len(texts))]
        if len({len(row) for row in found}) != 1:
            raise self._service.nonsense("vectors of different lengths")
        rows = np.array(found)
        if not np.isfinite(rows).all():
            raise self._service.nonsense("a vector is not finite")
        return rows

    def _prefixed(self, text: str, purpose: str) -> str:
        return self._address.options.get(f"{purpose}_prefix", "") + text

    def _cut(self, text: str) -> str:
        """As much of *text* as the model reads: some services refuse the rest, and none embeds it."""
        while (tokens := self._count([text])[0]) > self.max_tokens and text:
            text = text[: min(len(text) - 1, len(text) * self.max_tokens // tokens)]
        return text


class RemoteReranker:
    """Logits of a cross-encoder from a service; probabilities are turned into logits."""

    langs: frozenset[str] | None = None

    def __init__(self, service: ModelService) -> None:
        """Ask *service*, as the options of its address say.

        Raises SetupError when they cannot be used.
        """
        self._service = service
        options = service.address.options
        self.name = service.address.name()
        self._texts_field = options.get("texts_field", "documents")
        self._kind = options.get("scores")
        if self._kind not in (None, *KINDS):
            raise SetupError(f"{service.address.setting}: scores must be {' or '.join(KINDS)}")
        self._room = asyncio.Semaphore(AT_A_TIME)

    async def check(self) -> None:
        """Learn what kind of scores they are, unless it was said; raises SetupError when there are none to be had.

        No cross-encoder's logits lie between 0 and 1 both for an answer and for something else altogether.
        """
        texts = ["Paris is the capital of France.", "The pump must be primed with oil before use."]
        try:
            scores = await self._asked("What is the capital of France?", texts)
        except InvalidInput as exc:
            raise SetupError(exc.detail) from exc
        self._kind = self._kind or KINDS[all(0 <= score <= 1 for score in scores)]

    async def score(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[Score]:
        """One logit for each text in order, but for a blank or refused text, and for those the deadline left out."""
        scores: list[Score] = ["deadline" if text.strip() else "failed" for text in texts]
        if deadline.remaining_s() <= 0:
            return scores  # a request would be under way before the timeout is noticed
        wanted = [n for n, text in enumerate(texts) if text.strip()]

        async def fill(batch: Sequence[int]) -> None:
            async with self._room:
                for n, score in zip(batch, await self._logits(query, [texts[n] for n in batch]), strict=True):
                    scores[n] = score

        found = batches([texts[n] for n in wanted])
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline.remaining_s()):
                await _together(fill([wanted[n] for n in batch]) for batch in found)
        return scores

    async def _logits(self, query: str, texts: Sequence[str]) -> list[Score]:
        """A logit for each text; a batch that is refused is halved until the one at fault stands alone."""
        try:
            return [self._logit(score) for score in await self._asked(query, texts)]
        except InvalidInput:
            if len(texts) == 1:
                return ["failed"]
            middle = len(texts) // 2
            return [*await self._logits(query, texts[:middle]), *await self._logits(query, texts[middle:])]

    async def _asked(self, query: str, texts: Sequence[str]) -> list[float]:
        body = {"model": self._service.address.model, "query": _ends(query, MAX_QUERY_CHARS), self._texts_field: texts}
        reply = await self._service.post("/rerank", body, _SCORES)
        rows = reply.results if isinstance(reply, _Scores) else reply
        scores = [row.score for row in _in_order(self._service, rows, len(texts))]
        if not all(map(math.isfinite, scores)):
            raise self._service.nonsense("a score is not finite")
        return scores

    def _logit(self, score: float) -> float:
        if self._kind != "probabilities":
            return score
        if not 0 <= score <= 1:
            raise self._service.nonsense(f"the score {score:.3g} is no probability; say scores=logits")
        certain = min(max(score, NEAREST_TO_CERTAIN), 1 - NEAREST_TO_CERTAIN)
        return math.log(certain / (1 - certain))


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The numbers of the texts, in order, in runs that one request may hold."""
    batch: list[int] = []
    chars = 0
    for n, text in enumerate(texts):
        if batch and (len(batch) == BATCH_TEXTS or chars + len(text) > BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(n)
        chars += len(text)
    if batch:
        yield batch


async def _together(works: Iterable[Coroutine[object, object, None]]) -> None:
    """Return when all are done; the first error ends the others and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        first = failed.exceptions[0]
    else:
        return
    raise first  # out here, so that its own cause stays and the group is no part of it


def _ends(text: str, size: int) -> str:
    """At most *size* characters of a question, half of them from its end, where what is asked often stands."""
    return text if len(text) <= size else f"{text[: size - size // 2 - 1]} {text[-(size // 2) :]}"


def _in_order(service: ModelService, rows: Sequence[RowT], wanted: int) -> list[RowT]:
    by_index: Mapping[int, RowT] = {row.index: row for row in rows}
    if len(rows) != wanted or by_index.keys() != set(range(wanted)):
        raise service.nonsense(f"{len(rows)} results for {wanted} texts, or not one for each")
    return [by_index[n] for n in range(wanted)]


def _counter(address: Address) -> Callable[[Sequence[str]], list[int]]:
    if not (path := address.options.get("tokenizer")):
        return estimate
    tokenizer = open_tokenizer(Path(path))
    return lambda texts: count(tokenizer, texts)
