"""The answer cache: between what was retrieved and the model, so that a hit is made of what is stored now."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rag.answering.kept import KeptReply
from rag.answering.wording import says_the_same
from rag.calls import Call, ChatRequest, Reply
from rag.errors import RagError, StoreError
from rag.protocols import Embedder, Vectors
from rag.settings import EXTRACTIVE, Settings
from rag.store.answers import AnswerToKeep, SimilarAnswer, find_answer, keep_answer, similar_answers
from rag.store.engine import Database
from rag.telemetry import log
from rag.values import Passage, Principal, Question, TenantId

FORMAT = 3  # of the keys and of what is kept
CANDIDATES = 8  # similar questions that are looked at
PIECE_CHARS = 60  # about what a model sends at a time
KEEP_S = 0.5  # keeping takes milliseconds; whoever waits for the end of a finished answer waits no longer than this
# Settings that no answer depends on; every other is in the key, so a setting that is added is too.
_NOT_IN_THE_KEY = frozenset(
    "home database_url migration_database_url models_dir host port log_level pool_size pool_timeout_s embedder_key"  # noqa: SIM905
    " reranker_key threads max_body_bytes max_query_chars exact_below chat_keys request_timeout_s answer_concurrency"
    " answer_queue answer_tenant_share answer_wait_s answer_cache answer_cache_bytes answer_cache_ttl_s"
    " answer_cache_distance answer_cache_margin prices rerank_memory_bytes".split()
)


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near a question must be, as a cosine distance, and how much farther any with another answer."""

    distance: float
    margin: float


@dataclass(frozen=True, slots=True)
class Caching:
    """What answers are made with beside question and sources, and how long and how many are kept.

    `models` names each target of the chain by what makes its answers its own; the first is the one that is asked.
    """

    made_with: str
    models: Mapping[str, str]
    tenant_bytes: int
    ttl_s: float
    nearness: Nearness | None = None

    @property
    def first(self) -> str:
        """The target whose answers are looked for."""
        return next(iter(self.models))


def caching_of(settings: Settings, prompt_version: str) -> Caching | None:
    """What *settings* say of the cache; None without one, and where nothing but sentences is quoted anyway."""
    targets = {target.name: f"{target.dialect} {target.url} {target.model}" for target in settings.chat_targets}
    models = {name: targets.get(name, name) for name in settings.chat_chains["answer"]}
    if settings.answer_cache == "off" or next(iter(models)) == EXTRACTIVE:
        return None
    made_with = {name: value for name, value in settings.model_dump().items() if name not in _NOT_IN_THE_KEY}
    nearness = Nearness(settings.answer_cache_distance, settings.answer_cache_margin)
    return Caching(
        made_with=_digest([FORMAT, prompt_version, made_with]).hex(),
        models=models,
        tenant_bytes=settings.answer_cache_bytes,
        ttl_s=settings.answer_cache_ttl_s,
        nearness=nearness if settings.answer_cache == "semantic" else None,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What the cache has for a request: `reply`, if anything; the rest is what another answer is kept by."""

    request: ChatRequest
    asked: tuple[object, ...]
    index_version: int
    dated: bool
    reply: Reply | None = None
    vector: Vectors | None = None


class AnswerCache:
    """Answers that were made, given again to those who would get the same one."""

    def __init__(self, database: Database, embedder: Embedder, caching: Caching) -> None:
        """Keep answers in *database*; *embedder* is for similar questions."""
        self._database = database
        self._embedder = embedder
        self._caching = caching

    async def find(self, who: Principal, question: Question, request: ChatRequest, *, index_version: int) -> Found:
        """What is kept for the *request* made of this question of this asker; a cache that fails has nothing."""
        asked = (str(who.tenant_id), sorted(who.groups), _said(question, request), *_search(question))
        found = Found(request, asked, index_version, question.scope.dated)
        key, kin = self._keys(found, self._caching.models[self._caching.first])
        try:
            async with self._database.tenant(who.tenant_id) as tx:
                body = await find_answer(tx, key)
            if body is not None:
                return replace(found, reply=KeptReply.read(body).reply)
            nearness = self._caching.nearness
            return await self._similar(who.tenant_id, found, kin, nearness=nearness) if nearness else found
        except RagError as exc:
            log.warning("answer cache not read", code=exc.code, detail=exc.detail)
            return found

    async def keep(self, found: Found, reply: Reply, call: Call) -> None:
        """Keep the *reply* of *call* under the model that made it, if it is new and whole."""
        made_by = next((a.target for a in reversed(call.attempts) if a.outcome == "answered"), "")
        if found.reply or reply.degraded or reply.finish != "stop" or made_by not in self._caching.models:
            return
        request = found.request
        key, kin = self._keys(found, self._caching.models[made_by])
        body = KeptReply.of(reply, request.passages).as_json()
        question = None if found.vector is None else request.question
        answer = AnswerToKeep(key, kin, body, request.passages, question, found.vector, dated=found.dated)
        ttl_s, most_bytes = self._caching.ttl_s, self._caching.tenant_bytes
        try:  # the answer is there all the same
            async with asyncio.timeout(KEEP_S), self._database.tenant(call.tenant_id) as tx:
                await keep_answer(tx, answer, ttl_s=ttl_s, most_bytes=most_bytes)
        except TimeoutError:
            log.warning("answer not kept", code="timeout", detail=f"the database took more than {KEEP_S} s")
        except StoreError as exc:
            log.warning("answer not kept", code=exc.code, detail=exc.detail)

    async def _similar(self, tenant_id: TenantId, found: Found, kin: bytes, *, nearness: Nearness) -> Found:
        request = found.request
        vector = await self._embedder.embed_query(request.question)
        async with self._database.tenant(tenant_id) as tx:
            similar = await similar_answers(tx, kin, vector, limit=CANDIDATES)
        chosen = choose(request.question, similar, nearness)
        reply = KeptReply.read(chosen.body).carried_over(request.passages) if chosen else None
        return replace(found, reply=reply, vector=vector)

    def _keys(self, found: Found, model: str) -> tuple[bytes, bytes]:
        """The hash of all that makes *model*'s answer, and that of all but the question and its sources."""
        request = found.request
        common = [self._caching.made_with, model, *found.asked, *_making(request)]
        question = [normal(request.question), *map(_source, request.passages)]
        return _digest(["exact", common, question]), _digest(["kin", common, found.index_version])


async def replayed(reply: Reply) -> AsyncGenerator[str | Reply, None]:
    """A kept reply as a model would stream it: pieces that end before a blank, then the whole."""
    start = 0
    while start < len(reply.text):
        end = reply.text.find(" ", start + PIECE_CHARS)
        end = len(reply.text) if end < 0 else end
        yield reply.text[start:end]
        start = end
    yield reply


def choose(question: str, similar: Sequence[SimilarAnswer], nearness: Nearness) -> SimilarAnswer | None:
    """The nearest of the similar answers whose question says the same; None if another answer is about as near."""
    near = [answer for answer in similar if answer.distance <= nearness.distance]
    chosen = next((answer for answer in near if says_the_same(question, answer.question)), None)
    if chosen is None:
        return None
    rivals = (answer for answer in similar if answer.body != chosen.body)
    clear = all(rival.distance >= chosen.distance + nearness.margin for rival in rivals)
    return chosen if clear else None


def normal(question: str) -> str:
    """The question whatever its white space, and however its accents are composed."""
    return " ".join(unicodedata.normalize("NFC", question).split())


def _said(question: Question, request: ChatRequest) -> str:
    """The user's words where something else was searched for: the model reads them, behind the turns before."""
    said = normal(question.text)
    return said if said != normal(request.question) else ""


def _search(question: Question) -> list[object]:
    """What else of the question decides which sources are found; the moment only if the caller named one."""
    scope = question.scope
    as_of = scope.as_of.isoformat() if scope.dated else None
    return [repr(scope.filter), as_of, scope.index, question.top_k, question.rerank, question.recall]


def _making(request: ChatRequest) -> list[object]:
    """What else of the request the model reads: limits, rules, and the turns of the conversation before the question.

    The last message is made of question and sources, and is left out: it differs with the white space of a question.
    """
    turns = [[message.role, message.text] for message in request.messages[:-1]]
    return [request.task, request.max_tokens, request.temperature, sorted(request.needs), sorted(request.tags), turns]


def _source(passage: Passage) -> list[object]:
    best, chunks = passage.chunk, [str(chunk.chunk_id) for chunk in passage.chunks]
    return [passage.n, chunks, best.version, best.external_id, best.title, best.breadcrumb, passage.start, passage.text]


def _digest(parts: Sequence[object]) -> bytes:
    return sha256(json.dumps(parts, sort_keys=True, default=_plain).encode(errors="surrogatepass")).digest()


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, frozenset) else str(value)
