"""Log events, request ids, stage times and metrics. Never a question, a chunk or a key."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

T = TypeVar("T")

request_id: ContextVar[str] = ContextVar("request_id", default="")

log: structlog.stdlib.BoundLogger = structlog.get_logger("rag")


def configure_logging(level: str) -> None:
    """One JSON line for each event on standard error, from *level* up, with the request's id."""
    structlog.configure(
        processors=[
            _with_request_id,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class Metrics:
    """What `/metrics` counts."""

    def __init__(self) -> None:
        """Start at zero, in a registry of its own: two apps in one process do not share counts."""
        registry = CollectorRegistry()
        self.registry = registry
        self.requests = Counter("rag_requests_total", "Requests", ["route", "status"], registry=registry)
        self.seconds = Histogram("rag_request_seconds", "Time to the last byte", ["route"], registry=registry)
        self.stages = Histogram("rag_stage_seconds", "Time by retrieval stage", ["stage"], registry=registry)
        self.answers = Counter("rag_answers_total", "Answers by status", ["status"], registry=registry)
        self.cached = Counter("rag_answer_cache_total", "Answers by what the cache did", ["cache"], registry=registry)
        self.answering = Gauge("rag_answering", "Answers that have a slot, or wait", ["state"], registry=registry)
        self.jobs = Counter("rag_jobs_total", "Ended ingestion jobs", ["state"], registry=registry)
        self.attempts = Counter(
            "rag_chat_attempts_total", "Requests to chat models by how they ended", ["target", "outcome"],
            registry=registry,
        )  # fmt: skip
        self.failovers = Counter(
            "rag_chat_failovers_total", "Changes of the target within a request", ["left", "taken"], registry=registry
        )
        self.first_content = Histogram(
            "rag_chat_first_content_seconds", "Time to a target's first words", ["target"], registry=registry
        )
        self.target_state = Gauge(
            "rag_chat_target_state", "0 closed, 1 half-open, 2 open, 3 resting, 4 disabled", ["target"],
            registry=registry,
        )  # fmt: skip

    def observe_stages(self, timings_ms: dict[str, float]) -> None:
        """Count the stages of one search."""
        for stage, spent_ms in timings_ms.items():
            self.stages.labels(stage).observe(spent_ms / 1000)


class Stopwatch:
    """Milliseconds by stage."""

    def __init__(self) -> None:
        """Start now."""
        self._started = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Time a block as *stage*, or as more of it."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._stages[stage] = self._stages.get(stage, 0.0) + (time.perf_counter() - started) * 1000

    async def timed(self, stage: str, work: Awaitable[T]) -> T:
        """The result of *work*, timed as *stage*."""
        with self.running(stage):
            return await work

    def total(self) -> dict[str, float]:
        """Every stage so far, and the total."""
        spent = {**self._stages, "total": (time.perf_counter() - self._started) * 1000}
        return {stage: round(ms, 3) for stage, ms in spent.items()}


def _with_request_id(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    if current := request_id.get():
        event["request_id"] = current
    return event
