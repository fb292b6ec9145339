"""What a question says apart from how it says it: the gate before an answer to a similar question is given.

Vectors do not tell "on" from "off", 2+2 from 2+3, or who pays whom. So only differences that are known to be harmless
are forgiven: articles, some auxiliaries, how politely it is asked, and the ending -s. Every other word has to be the
same, and in the same order. That tells negations, numbers, units, names and opposites apart without a list of them. Of
a question that does not begin in English nothing is forgiven: "a" and "do" carry meaning elsewhere.
"""

from __future__ import annotations

import re
import unicodedata

_FRAME = re.compile(
    r"^(?:please\s+)?(?:(?:can|could|would|will)\s+you\s+)?(?:please\s+)?"
    r"(?:tell|explain\s+to|show|let)\s+(?:me|us)\s+(?:know\s+)?"
)
_ENGLISH = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|am|was|were|do|does|did|can|could|may|must|shall|should|will"
    r"|would|have|has)(?:n't|'s)?\b"
)
_ACRONYM = re.compile(r"\b(?:AM|AN|ARE|BE|CAN|DO|IS|IT|MAX|MAY|ME|MIN|US|WE|WHO|WILL)\b")
_SHORT = 3  # letters: "is", "gas" and "ms" have no ending
_PLURAL = re.compile(r"(?:ies|(?:(?<=x)|(?<=ss)|(?<=ch)|(?<=sh)|(?<=zz))es|s)$")
_PLAINLY = (
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(who|what|where|when|how|why|it|that|there|here)'s\b"), r"\1 is"),
    (re.compile(r"'s\b"), " \u00a7"),  # of what stands before it, not of what stands after
    (re.compile(r"\bhow much time\b"), "how long"),
    (re.compile(r"\b(?:have|has) to\b"), "must"),
    (re.compile(r"\b(how|where) (?:do|can|could) (?:i|we)\b"), r"\1"),
    (re.compile(r"\bhow to\b"), "how"),
    (re.compile(r"\b(?:do|does)\b"), ""),
)
_END = re.compile(r"[?!.,;:]+(?=\s|$)")  # of a sentence or clause; elsewhere they are part of a name or of code
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:[-./@]\w+)*|\S")
_HARMLESS = frozenset(("a", "an", "the", "am", "are", "be", "is", "my", "our", "please"))
_MODALS = frozenset(("can", "could", "did", "had", "may", "might", "must", "shall", "should", "was", "will", "would"))
_SAME = {
    "which": "what", "max": "maximum", "min": "minimum", "remove": "delete", "locate": "find", "e-mail": "email",
    "could": "can", "were": "was", "we": "i", "us": "me",
}  # fmt: skip


def says(question: str) -> tuple[list[str], list[str]]:
    """The question's words that carry meaning, without the ending -s, and its auxiliaries that do, both in order."""
    composed = _ACRONYM.sub("\\g<0>\u00b6", unicodedata.normalize("NFKC", question))  # "US" is not us
    text = _FRAME.sub("", _END.sub(" ", composed.casefold().replace("\u2019", "'").strip()))
    if not _ENGLISH.match(text):
        return _TOKEN.findall(text), []
    for pattern, plain in _PLAINLY:
        text = pattern.sub(plain, text)
    words = [_SAME.get(word, word) for word in map(_bare, _TOKEN.findall(text)) if word not in _HARMLESS]
    return [word for word in words if word not in _MODALS], [word for word in words if word in _MODALS]


def says_the_same(one: str, other: str) -> bool:
    """Whether both questions differ in harmless words only, and have others."""
    said = says(one)
    return bool(said[0]) and said == says(other)


def _bare(word: str) -> str:
    """The word as one of many, or as what one does: other endings tell who does a thing from whom it is done to."""
    if len(word) <= _SHORT or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    return _PLURAL.sub(lambda ending: "y" if ending[0] == "ies" else "", word)
