"""Print made searchable: ligatures and presentation forms to letters, words cut at line ends whole again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set

PRESENTATION_FORMS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]+")
SOFT_HYPHEN = re.compile("\u00ad\\s*\n\\s*|\u00ad")
CUT = re.compile("[-\u2010]\n")  # in every word that is cut, and quickly looked for
CUT_WORD = re.compile(r"(?<![\w-])([\w-]*[^\W\d_])[-\u2010]\n[ \t]*([^\W\d_][\w-]*)")
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
COMPOUNDING = frozenset({"all", "cross", "ex", "half", "high", "long", "low", "non", "real", "self", "short", "well"})


def plain_letters(text: str) -> str:
    """*text* with ligatures and Arabic presentation forms as ordinary letters, and without soft hyphens.

    Other compatibility characters stay, because their letters would mean something else: x² is not x2.
    """
    if text.isascii():
        return text
    text = PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return SOFT_HYPHEN.sub("", text)


def vocabulary(text: str) -> frozenset[str]:
    """The words of *text* in lower case, compounds as a whole too, those cut at line ends left out."""
    words = set(WORD.findall((CUT_WORD.sub(" ", text) if CUT.search(text) else text).lower()))
    return frozenset(words.union(*(word.split("-") for word in words)))


def rejoin(text: str, known: Set[str]) -> str:
    """*text* with the words whole that a hyphen cuts at a line end; compounds, told by *known* words, keep it."""
    return CUT_WORD.sub(lambda match: _whole(match[1], match[2], known), text) if CUT.search(text) else text


def _whole(before: str, after: str, known: Set[str]) -> str:
    compound, word = f"{before}-{after}", f"{before}{after}"
    first, second = before.lower(), after.lower()
    if word.lower() in known and compound.lower() not in known:
        return word
    is_compound = (
        not after[0].islower()
        or "-" in before
        or compound.lower() in known
        or first in COMPOUNDING
        or (first in known and second in known)
    )
    return compound if is_compound else word
