"""What a question says apart from how it says it: the gate before an answer to a similar question is given.

Vectors do not tell "on" from "off", 2+2 from 2+3, or who pays whom. So only differences that are known to be harmless
are forgiven: articles, some auxiliaries, how politely it is asked, and the ending -s. Every other word has to be the
same, and in the same order. That tells negations, numbers, units, names and opposites apart without a list of them, in
any language.
"""

from __future__ import annotations

import re
import unicodedata

_FRAME = re.compile(
    r"^(?:please\s+)?(?:(?:can|could|would|will)\s+you\s+)?(?:please\s+)?"
    r"(?:tell|explain\s+to|show|let)\s+(?:me|us)\s+(?:know\s+)?"
)
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
# words with letters may have joiners, numbers a point or comma; of other characters, those that end a sentence or
# bracket something say nothing
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]\w*(?:[-_./@]\w+)*|[^\s\w?!.,;:()']")
_HARMLESS = frozenset(("a", "an", "the", "am", "are", "be", "is", "my", "our", "please"))
_MODALS = frozenset(("can", "could", "did", "had", "may", "might", "must", "shall", "should", "was", "will", "would"))
_SAME = {
    "which": "what", "max": "maximum", "min": "minimum", "remove": "delete", "locate": "find", "e-mail": "email",
    "could": "can", "were": "was", "we": "i", "us": "me",
}  # fmt: skip


def says(question: str) -> tuple[list[str], list[str]]:
    """The question's words that carry meaning, without the ending -s, and its auxiliaries that do, both in order."""
    text = unicodedata.normalize("NFKC", question).casefold().replace("\u2019", "'").strip()
    text = _FRAME.sub("", text)
    for pattern, plain in _PLAINLY:
        text = pattern.sub(plain, text)
    words = [_SAME.get(word, word) for word in map(_bare, _TOKEN.findall(text)) if word not in _HARMLESS]
    return [word for word in words if word not in _MODALS], [word for word in words if word in _MODALS]


def says_the_same(one: str, other: str) -> bool:
    """Whether both questions differ in harmless words only."""
    return says(one) == says(other)


def _bare(word: str) -> str:
    """The word as one of many, or as what one does: other endings tell who does a thing from whom it is done to."""
    if len(word) <= _SHORT or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    return _PLURAL.sub(lambda ending: "y" if ending[0] == "ies" else "", word)
