"""Cell values as a spreadsheet shows them, dates in ISO form."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|_.|\*.')
MAX_PLAIN = 1e15  # spreadsheets keep 15 digits
DIGITS = re.compile(r"[#0?][#0?,]*(?:\.([0#?]*))?")


def shown(value: object, number_format: str) -> str:
    """The text of a cell; numbers with the decimals, separators, percent sign and currency of their format."""
    match value:
        case bool():
            return str(value).upper()
        case datetime():
            whole_day = value.time() == time() and "h" not in number_format.lower()
            return value.date().isoformat() if whole_day else value.isoformat(sep=" ", timespec="seconds")
        case time():
            return value.isoformat(timespec="seconds")
        case date() | timedelta():
            return str(value)
        case int() | float():
            return _number(value, number_format)
        case _:
            return str(value)


def _number(value: float, number_format: str) -> str:
    section = number_format.split(";")[0]
    digits = DIGITS.search(LITERAL.sub("", section))
    if digits is None or "E+" in section or "/" in section:
        return format(Decimal(repr(value)).normalize(), "f") if abs(value) < MAX_PLAIN else repr(value)
    percent = "%" in LITERAL.sub("", section)
    amount = Decimal(repr(value)) * (100 if percent else 1)
    places = digits[1] or ""
    text = f"{amount:{',' if ',' in digits[0] else ''}.{len(places)}f}"
    optional = len(places) - len(places.rstrip("#?"))
    while optional and text.endswith("0"):
        text, optional = text[:-1], optional - 1
    text = text.removesuffix(".")
    before, after = _around(section)
    return f"{before}{text}{after}".strip()


def _around(section: str) -> tuple[str, str]:
    """What the format writes before and after the digits."""
    plain = LITERAL.sub(lambda match: "".join(filter(None, match.groups())), section)
    digits = DIGITS.search(plain)
    return (plain[: digits.start()], plain[digits.end() :]) if digits else ("", "")
