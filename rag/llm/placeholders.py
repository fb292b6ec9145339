"""What a redacted prompt may be longer by: some placeholders are longer than what they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from rag.calls import Message
from rag.settings import Redacted

EMAIL = re.compile(r"(?<![\w.+%\-])[\w.+%\-]++@[\w\-]++(?:\.[\w\-]++)++")
LONGEST = len("<PHONE_999999>")  # IBANs and cards are longer than their own by themselves
FEWEST_DIGITS = 4  # of a phone number, in the smallest countries
CHARS_PER_TOKEN = 2  # as prompts are measured
_PLUS = re.compile(r"[+\uff0b]")
_NUMBERS = re.compile(r"(?:[+\uff0b][^\w\n]{0,2})?(?P<run>\d(?:(?:[^\w\n|]|x){0,5}\d)*)")

Growth = Callable[[Iterable[Message]], int]


def growth_by(kinds: Collection[Redacted], region: str | None) -> Growth:
    """The most tokens that placeholders for *kinds* add to messages, found without looking up a phone number.

    Without a *region* a phone number begins with +.
    """

    def growth(messages: Iterable[Message]) -> int:
        return sum(-(-_chars(message.text, kinds, region) // CHARS_PER_TOKEN) for message in messages)

    return growth


def _chars(text: str, kinds: Collection[Redacted], region: str | None) -> int:
    chars = 0
    if "email" in kinds:
        chars += sum(max(LONGEST - len(found[0]), 0) for found in EMAIL.finditer(text))
    if "phone" in kinds:
        chars += sum(_more(found["run"]) for found in _NUMBERS.finditer(text) if region or _PLUS.search(found[0]))
    return chars


def _more(numbers: str) -> int:
    """Of a run of numbers: it may be several phone numbers."""
    most = sum(map(str.isdigit, numbers)) // FEWEST_DIGITS
    return max(LONGEST * most - len(numbers), 0)


NO_GROWTH = growth_by((), None)  # nothing is redacted
