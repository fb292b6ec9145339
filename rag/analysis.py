"""The one text analyser of the lexical leg: ingestion and queries share it, so both see the same terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import blake2b

import Stemmer

ANALYSER = "identifiers+snowball-1"  # change it with the rules: stored postings are of one analyser

# Scripts written without blanks between words, and Hangul, whose particles stick to the noun.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"  # kana, Han, Hangul
)
# `re` counts combining marks as no part of a word, yet they are vowels in Thai and in India's scripts.
_MARKS = "".join(chr(c) for c in range(0x300, 0x3100) if unicodedata.category(chr(c)).startswith("M"))
_CHAR = rf"[\w{_MARKS}]"
_LETTER = rf"(?:[^\W\d_]|[{_MARKS}])"
_WORD = re.compile(rf"\.?{_CHAR}+(?:[._\-/@]+{_CHAR}+)*(?:\+\+|#)?")
_PARTS = re.compile(rf"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|(?:[^\W\d_a-zA-Z]|[{_MARKS}])+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_PLAIN = re.compile(f"{_LETTER}+")
_IDENTIFIER = re.compile(r"(?<![\w.])(?=[\w.\-/]*[\d_])[A-Za-z][\w.\-/]*\w")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")

# Lucene's English list, and what the apostrophe leaves of "what's" and "don't": words in most documents, whose
# postings cost more than their idf is worth.
_ENGLISH_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they"  # noqa: SIM905
    " this to was will with s t".split()
)

_SNOWBALL = {
    "ar": "arabic", "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip


def analyse(text: str, lang: str = "en") -> list[str]:
    """The terms of *text* in order, repeats kept: identifiers whole and in parts, other words stemmed.

    Unknown languages are folded but not stemmed; scripts without blanks give character pairs.
    """
    stem = _stemmer(lang)
    stop = _ENGLISH_STOP_WORDS if lang == "en" else frozenset[str]()
    return [term for word in _WORD.findall(_compose(text)) for term in _terms(word, stem=stem, stop=stop)]


def identifiers(text: str) -> list[str]:
    """The names in *text* that only one thing bears, case folded: with a digit, or a joiner between letters."""
    return [name.casefold() for name in _IDENTIFIER.findall(text)]


@lru_cache(maxsize=200_000)
def term_id(term: str) -> int:
    """The 64-bit number that stands for *term* in the postings: no dictionary to keep, no text to leak."""
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "big", signed=True)


def _compose(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\u00ad", "")


@lru_cache(maxsize=100_000)
def _fold(word: str) -> str:
    """Case folded and without accents, equal for composed and decomposed forms."""
    if word.isascii():
        return word.lower()
    if _UNSPACED_RUN.search(word):
        return word.casefold()  # marks carry meaning here: Thai vowels, Japanese voicing
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _terms(word: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    if _UNSPACED_RUN.search(word):
        yield from _mixed(word, stem=stem, stop=stop)
        return
    if _PLAIN.fullmatch(word) and not _CAMEL.search(word):
        folded = _fold(word)
        if folded not in stop:
            yield _stemmed(folded, stem)
        return
    whole = _fold(word)
    yield whole
    # the parts let "session" find delete_user_session, the whole keeps the exact name first; a lone letter or digit
    # of an identifier ("v", "1" of v1.2.3) says nothing
    parts = (_stemmed(_fold(part), stem) for part in _PARTS.findall(word) if len(part) > 1)
    yield from (part for part in parts if part != whole)


def _mixed(word: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    at = 0
    for run in _UNSPACED_RUN.finditer(word):
        yield from _latin(word[at : run.start()], stem=stem, stop=stop)
        yield from _pairs(_fold(run.group()))
        at = run.end()
    yield from _latin(word[at:], stem=stem, stop=stop)


def _latin(text: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    for word in _WORD.findall(text):
        yield from _terms(word, stem=stem, stop=stop)


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    yield from (run[i : i + 2] for i in range(len(run) - 1))


def _stemmed(word: str, stem: Stemmer.Stemmer | None) -> str:
    return stem.stemWord(word) if stem is not None else word


@cache
def _stemmer(lang: str) -> Stemmer.Stemmer | None:
    name = _SNOWBALL.get(lang.lower().split("-")[0])
    return Stemmer.Stemmer(name) if name else None
