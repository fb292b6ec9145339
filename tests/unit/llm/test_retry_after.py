from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.llm.retry_after import TOO_LONG_S, Hint, retry_after

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
LATER = "Mon, 30 Nov 2026 12:00:20 GMT"
EARLIER = "Mon, 30 Nov 2026 11:59:00 GMT"


def seconds(*headers: tuple[str, str], delay: str = "", message: str = "") -> float | None:
    raw = [(name.encode(), value.encode(errors="replace")) for name, value in headers]
    hint = retry_after(httpx2.Headers(raw), delay=delay, message=message, now=lambda: NOON)
    return hint and hint.seconds


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("retry-after-ms", "1500")], 1.5),
        ([("retry-after-ms", "abc"), ("retry-after", "2")], 2),
        ([("x-ms-retry-after-ms", "250")], 0.25),
        ([("retry-after", "7")], 7),
        ([("retry-after", "0.5")], 0.5),
        ([("retry-after", " 3 ")], 3),
        ([("retry-after", LATER)], 20),
        ([("retry-after", "Monday, 30-Nov-26 12:00:20 GMT")], 20),
        ([("retry-after", "Mon Nov 30 12:00:20 2026")], 20),
        ([("retry-after", EARLIER)], 0),
        ([("retry-after", "0")], 0),
        ([("retry-after", "-5")], 0),
        ([("retry-after", "nan")], None),
        ([("retry-after", "inf")], TOO_LONG_S),
        ([("retry-after", "1e999")], TOO_LONG_S),
        ([("retry-after", "9" * 400)], TOO_LONG_S),
        ([("retry-after", "")], None),
        ([("retry-after", "soon")], None),
        ([("retry-after", "1_000")], None),
        ([("retry-after", "٣")], None),
        ([("retry-after", "Mon, 99 Nov 2026 12:00:20 GMT")], None),
        ([("retry-after", "Mon, 30 Nov 2026 12:00:20 +99999999")], None),
        ([("retry-after", "300")], 300),
        ([("retry-after", "1, 5")], 5),
        ([("retry-after", "1"), ("retry-after", "5")], 5),
        ([("retry-after", "1, soon")], 1),
        ([("retry-after", "soon, later")], None),
        ([("retry-after", "1"), ("retry-after", LATER)], 20),
        ([("retry-after", "Mon, 30 Nov 2026 11:00:20 GMT"), ("date", "Mon, 30 Nov 2026 11:00:00 GMT")], 20),
        ([("retry-after", LATER), ("date", "yesterday")], 20),
        ([], None),
    ],
)
def test_every_form_of_the_header_is_read(headers: list[tuple[str, str]], expected: float | None) -> None:
    assert seconds(*headers) == expected


@pytest.mark.parametrize(
    ("delay", "expected"), [("46s", 46), ("0.8s", 0.8), ("3", 3), ("", None), ("soon", None), ("s", None)]
)
def test_the_delay_in_a_body_is_read(delay: str, expected: float | None) -> None:
    assert seconds(delay=delay) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Rate limit reached. Please try again in 46.72s.", 46.72),
        ("try again in 2m 13s", 133),
        ("try again in 10h17m5.7s", 37025.7),
        ("in 2m13s", 133),
        ("Retry after 20 seconds.", 20),
        ("try again in 120ms", 0.12),
        ("Please wait and try again in 1 minute", 60),
        ("try again in " + "9" * 400 + "s", TOO_LONG_S),
        ("try again in a while", None),
        ("in 3 months", None),
        ("", None),
    ],
)
def test_a_sentence_is_only_a_guess(message: str, expected: float | None) -> None:
    hint = retry_after(httpx2.Headers(), message=message)

    assert hint == (None if expected is None else Hint(pytest.approx(expected), guessed=True))


def test_the_header_wins_over_the_body() -> None:
    assert seconds(("retry-after", "2"), delay="46s", message="try again in 9s") == 2
    assert seconds(delay="46s", message="try again in 9s") == 46


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_nothing_a_provider_sends_breaks_it(header: str, delay: str, message: str) -> None:
    found = seconds(("retry-after", header), ("retry-after-ms", header), delay=delay, message=f"in {message}")

    assert found is None or 0 <= found <= TOO_LONG_S
