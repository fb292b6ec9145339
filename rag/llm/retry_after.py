"""How long a provider asks to be left alone, in every form it is said in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx2

TOO_LONG_S = 7 * 86_400.0  # nobody waits as long; finite, so that it can be added to a clock
IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
AMOUNT = r"(?:\d+(?:\.\d+)?\s?(?:milliseconds?|ms|hours?|h|minutes?|mins?|m|seconds?|secs?|s)\b\s*|\d+[hm](?=\d))"
IN_WORDS = re.compile(rf"\b(?:in|after)\s+((?:{AMOUNT})+)", re.ASCII | re.IGNORECASE)
PART = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|milli|h|m|s)", re.ASCII | re.IGNORECASE)
SECONDS = {"ms": 0.001, "milli": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}


class Hint(NamedTuple):
    """Seconds to leave the provider alone; guessed from a sentence, it is a reason to go elsewhere, not to wait."""

    seconds: float
    guessed: bool = False


def now_utc() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


def retry_after(
    headers: httpx2.Headers, *, delay: str = "", message: str = "", now: Callable[[], datetime] = now_utc
) -> Hint | None:
    """The first that can be read of: the headers, Gemini's `retryDelay`, the sentence of the error."""
    seconds = _in_headers(headers, now)
    if seconds is None:
        seconds = _number(delay.removesuffix("s")) if delay else None
    if seconds is not None:
        return Hint(_bounded(seconds))
    guessed = _in_words(message)
    return None if guessed is None else Hint(_bounded(guessed), guessed=True)


def _bounded(seconds: float) -> float:
    """From 0, which lets the caller choose, to what is too long whatever it says."""
    return min(max(seconds, 0.0), TOO_LONG_S)


def _in_headers(headers: httpx2.Headers, now: Callable[[], datetime]) -> float | None:
    for name in IN_MILLISECONDS:
        said = [ms / 1000 for ms in map(_number, headers.get_list(name, split_commas=True)) if ms is not None]
        if said:
            return max(said)
    values = [value for line in headers.get_list("retry-after") for value in _line(line, headers.get("date", ""), now)]
    return max(values, default=None)


def _line(line: str, date: str, now: Callable[[], datetime]) -> Iterator[float]:
    """The values of one line: a number, a moment, or numbers that a proxy has put together."""
    moment = None if _number(line) is not None else _moment(line)
    if moment is not None:
        # what the sender's clock says counts: ours may be an hour off
        yield (moment - (_moment(date) or now())).total_seconds()
        return
    yield from (number for number in map(_number, line.split(",")) if number is not None)


def _number(text: str) -> float | None:
    return float(text) if NUMBER.fullmatch(text := text.strip()) else None


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _in_words(message: str) -> float | None:
    found = IN_WORDS.search(message)
    if not found:
        return None
    total = sum(float(number) * SECONDS[unit.lower()] for number, unit in PART.findall(found.group(1)))
    return total if math.isfinite(total) else TOO_LONG_S
