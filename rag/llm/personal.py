"""Personal data in a text: where e-mail addresses, IBANs, cards and phone numbers stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import get_args

from phonenumbers import PhoneNumberMatcher
from stdnum import iban, luhn

from rag.llm.placeholders import EMAIL
from rag.settings import Redacted

KINDS: tuple[Redacted, ...] = get_args(Redacted)  # of two that overlap, the first is right

# what numbers are set in groups with: blanks, narrow ones, hyphens, dots, and the end of a line that breaks in one
_SEPARATOR = r"(?:\r?\n|[ .\-\u00a0\u2007\u2009\u2010\u2011\u202f])"
_IBAN = re.compile(rf"(?<![A-Za-z0-9])[A-Za-z]{{2}}[0-9]{{2}}(?:{_SEPARATOR}?[A-Za-z0-9]){{11,30}}")
_CARD = re.compile(rf"(?<![0-9])[2-6][0-9]{{3}}(?:{_SEPARATOR}?[0-9]{{2,6}}){{2,5}}")
_SEPARATORS = re.compile(_SEPARATOR)
SHORTEST_CARD, LONGEST_CARD = 13, 19  # digits, ISO/IEC 7812


@dataclass(frozen=True, slots=True)
class Found:
    """Personal data of one kind at [start, end) of a text."""

    start: int
    end: int
    kind: Redacted


def personal(text: str, kinds: Collection[Redacted], region: str | None = None) -> list[Found]:
    """What of *kinds* is in the text, in order, none overlapping another.

    Phone numbers without a leading + are those of *region*, two letters; with none, they are not looked for.
    """
    taken: list[Found] = []
    for kind in KINDS:
        if kind in kinds:
            found = [Found(start, end, kind) for start, end in _FINDERS[kind](text, region)]
            taken += [f for f in found if not any(f.start < t.end and t.start < f.end for t in taken)]
    return sorted(taken, key=lambda f: f.start)


def _emails(text: str, _: str | None) -> Iterator[tuple[int, int]]:
    return (match.span() for match in EMAIL.finditer(text))


def _ibans(text: str, _: str | None) -> Iterator[tuple[int, int]]:
    return _valid(text, _IBAN, _is_iban)


def _cards(text: str, _: str | None) -> Iterator[tuple[int, int]]:
    return _valid(text, _CARD, _is_card)


def _valid(text: str, pattern: re.Pattern[str], is_valid: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The longest valid beginning of each match: what follows a number may look like more of it."""
    match = pattern.search(text)
    while match:
        start = match.start()
        ends = (end for end in range(match.end(), start, -1) if _whole(text, end) and is_valid(text[start:end]))
        end = next(ends, None)
        if end is not None:
            yield start, end
        match = pattern.search(text, end or start + 1)


def _whole(text: str, end: int) -> bool:
    return text[end - 1].isalnum() and not text[end : end + 1].isalnum()


def _is_iban(number: str) -> bool:
    return bool(iban.is_valid(_SEPARATORS.sub("", number), check_country=False))


def _is_card(number: str) -> bool:
    digits = _SEPARATORS.sub("", number)
    return SHORTEST_CARD <= len(digits) <= LONGEST_CARD and bool(luhn.is_valid(digits))


def _phones(text: str, region: str | None) -> Iterator[tuple[int, int]]:
    return ((match.start, match.end) for match in PhoneNumberMatcher(text, region))


_FINDERS: dict[Redacted, Callable[[str, str | None], Iterator[tuple[int, int]]]] = {
    "email": _emails,
    "iban": _ibans,
    "card": _cards,
    "phone": _phones,
}
