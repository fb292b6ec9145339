"""Numbers as lists and clauses show them: 4, d, D, iv, IV."""

from __future__ import annotations

MAX_ROMAN = 3999
ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


def numeral(number: int, style: str) -> str:
    """*number* in a *style* as Word names it (`lowerRoman`); decimal where that is none of ours or cannot write it."""
    match style:
        case "lowerLetter" | "upperLetter" if 1 <= number <= MAX_ROMAN:
            # as word processors do: z, then aa, bb
            text = chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)
        case "lowerRoman" | "upperRoman" if 1 <= number <= MAX_ROMAN:
            text = _roman(number)
        case _:
            return str(number)
    return text.upper() if style.startswith("upper") else text


def _roman(number: int) -> str:
    text = ""
    for value, letters in ROMAN:
        count, number = divmod(number, value)
        text += letters * count
    return text
